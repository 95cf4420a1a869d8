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

/** The longest run of equal words in these ranges, the first if there are several.
 * @param {Word[]} words
 * @param {Word[]} reference
 * @param {number[]} range */
function findLongest(words, reference, [i0, i1, j0, j1]) {
  let best = { i: i0, j: j0, n: 0 };
  for (let i = i0; i < i1; i++) {
    for (let j = j0; j < j1; j++) {
      let n = 0;
      while (i + n < i1 && j + n < j1 && words[i + n].text === reference[j + n].text) n++;
      if (n > best.n) best = { i, j, n };
    }
  }
  return best;
}

/** Align an output with its reference: the longest run of
 * equal words is right, and so on to both sides of it; what has no equal is substituted in order, and
 * what is left is inserted or omitted.
 * @param {Word[]} words
 * @param {Word[]} reference
 * @returns {Step[]} */
export function alignWords(words, reference, i0 = 0, i1 = words.length, j0 = 0, j1 = reference.length) {
  const { i, j, n } = findLongest(words, reference, [i0, i1, j0, j1]);
  if (!n) {
    return Array.from({ length: Math.max(i1 - i0, j1 - j0) }, (_, k) => {
      const [word, expected] = [words.slice(i0, i1)[k], reference.slice(j0, j1)[k]];
      return { kind: !word ? "omission" : !expected ? "insertion" : "substitution", word, expected };
    });
  }
  /** @type {Step[]} */
  const same = words.slice(i, i + n).map((word, k) => ({ kind: "same", word, expected: reference[j + k] }));
  return [...alignWords(words, reference, i0, i, j0, j), ...same, ...alignWords(words, reference, i + n, i1, j + n, j1)];
}

/** How many words of a reference an output has in their order, and the words of the longer of both.
 * @param {string} hyp
 * @param {string} ref */
export function countRight(hyp, ref) {
  const words = splitWords(hyp), reference = splitWords(ref), own = countable(reference).length === reference.length ? () => true : isWord;
  const right = alignWords(words, reference).filter(({ kind, expected }) => kind === "same" && own(expected.text));
  return { right: right.length, words: Math.max(countable(words).length, countable(reference).length) };
}

export function formatRight(hyp, ref) {
  const { right, words } = countRight(hyp, ref);
  return `${right} of ${words}`;
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
export const MARKS_NOTE = "Marked: words that are not in the reference at this place; ‸ where words of the reference are left out. Right: words of the reference, in its order, of the longer of output and reference.";
