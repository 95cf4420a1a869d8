// What an output has right, wrong, too much and too little, compared with its reference.
import { element } from "./page.js";

/** A word or punctuation mark of a text.
 * @typedef {{ text: string, space: string, start: number, end: number }} Word space: before it */
/** A step of an alignment: `word` of the output, `expected` of the reference.
 * @typedef {{ kind: "same" | "substitution" | "insertion" | "omission", word?: Word, expected?: Word }} Step */

/** Split a text into words and punctuation marks.
 * @param {string} text
 * @returns {Word[]} */
export function splitWords(text) {
  const words = [];
  for (const match of text.matchAll(/(\s*)([\p{L}\p{M}\p{N}_]+(?:['’-][\p{L}\p{M}\p{N}_]+)*|[^\s])/gu)) {
    const end = match.index + match[0].length;
    words.push({ text: match[2], space: match[1], start: end - match[2].length, end });
  }
  return words;
}

/** Whether this is a word rather than a punctuation mark. */
export const isWord = (text) => /[\p{L}\p{N}]/u.test(text);

/** The words of a text, or its signs if it has no words.
 * @param {Word[]} words */
function countable(words) {
  const own = words.filter(({ text }) => isWord(text));
  return own.length ? own : words;
}
export const countWords = (text) => countable(splitWords(text)).length;

/** Align an output with its reference: the longest common subsequence is right; between two right
 * words, those of both sides are substitutions in order, and what is left is inserted or omitted.
 * @param {Word[]} words
 * @param {Word[]} reference
 * @returns {Step[]} */
export function alignWords(words, reference) {
  const n = words.length, m = reference.length;
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      best[i][j] = words[i].text === reference[j].text ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  /** @type {Step[]} */
  const steps = [];
  let own = [], theirs = [];
  const closeGap = () => {
    for (let k = 0; k < Math.max(own.length, theirs.length); k++) {
      const kind = k >= own.length ? "omission" : k >= theirs.length ? "insertion" : "substitution";
      steps.push({ kind, word: own[k], expected: theirs[k] });
    }
    [own, theirs] = [[], []];
  };
  for (let i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && words[i].text === reference[j].text) {
      closeGap();
      steps.push({ kind: "same", word: words[i++], expected: reference[j++] });
    } else if (j === m || (i < n && best[i + 1][j] >= best[i][j + 1])) own.push(words[i++]);
    else theirs.push(reference[j++]);
  }
  closeGap();
  return steps;
}

/** How many words of a reference an output has in their order.
 * @param {string} hyp
 * @param {string} ref */
export function countRight(hyp, ref) {
  const reference = splitWords(ref), own = countable(reference).length === reference.length ? () => true : isWord;
  const right = alignWords(splitWords(hyp), reference).filter(({ kind, expected }) => kind === "same" && own(expected.text));
  return { right: right.length, words: countable(reference).length };
}

/** What to show of an output: its words, and marks where words are left out.
 * @param {string} hyp
 * @param {string} ref
 * @param {boolean} isFinished if not, words that are still to come are not left out
 * @returns {{ kind: string, text: string, space: string, index: number, title: string }[]} */
export function showDifferences(hyp, ref, isFinished = true) {
  const shown = [];
  let index = 0;
  for (const { kind, word, expected } of alignWords(splitWords(hyp), splitWords(ref))) {
    const last = shown.at(-1);
    if (kind !== "omission") {
      const title = kind === "substitution" ? `in the reference: ${expected.text}` : kind === "insertion" ? "not in the reference" : "";
      shown.push({ kind, text: word.text, space: word.space, index: index++, title });
    } else if (last?.kind === "omission") last.title += expected.space + expected.text;
    else shown.push({ kind, text: "‸", space: "", index: -1, title: `left out: ${expected.text}` });
  }
  if (!isFinished && shown.at(-1)?.kind === "omission") shown.pop();
  return shown;
}

/** An element for a part of `showDifferences`. */
export function markPart({ kind, text, space, index, title }) {
  const mark = kind === "same" ? text : kind === "omission"
    ? element("mark", { class: "gap", title }, element("span", { "aria-hidden": "true" }, text), element("span", { class: "spoken" }, ` (${title}) `))
    : element("mark", { class: kind, title }, text);
  return element("span", {}, space, index < 0 ? mark : element("span", { class: "w", "data-w": index }, mark));
}
export const MARKS_NOTE = "Marked: words that are not in the reference at this place; ‸ where words of the reference are left out.";
