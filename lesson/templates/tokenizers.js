// A text's tokens, as seqmodels/data/tokenizers.py makes them. `vocabulary` is from vocabulary.py.

/** `spans` are where the tokens of a text begin and end in it.
 * @typedef {{ encode: (text: string) => number[], decode: (tokens: number[]) => string, labels: string[],
 *   spans: (text: string, ids: number[]) => [number, number][] }} Tokenizer */

const SPECIALS = 4, UNK = 3;

/** @returns {Tokenizer} */
export function makeTokenizer(vocabulary) {
  const { kind } = vocabulary;
  if (kind === "words") return makeWordTokenizer(vocabulary);
  const pieces = kind === "bpe" ? vocabulary.ranks.map(atob)
    : kind === "characters" ? [...vocabulary.characters].map(utf8)
      : Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  const ids = new Map(pieces.map((piece, i) => [piece, i + SPECIALS]));
  const encode = {
    bpe: (text) => (text.match(new RegExp(vocabulary.pattern, "gu")) ?? []).flatMap((part) => mergeBytes(utf8(part), ids)),
    characters: (text) => Array.from(text, (character) => ids.get(utf8(character)) ?? UNK),
    bytes: (text) => Array.from(new TextEncoder().encode(text), (byte) => byte + SPECIALS),
  }[kind];
  const decode = (tokens) => {
    const text = tokens.map((id) => (id === UNK ? utf8("⁇") : pieces[id - SPECIALS] ?? "")).join("");
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(text, (byte) => byte.charCodeAt(0)));
  };
  const spans = (text, ids) => {
    const ofByte = [...text].flatMap(((at) => (char) => { // the place of the character that each byte is of
      const bytes = new Array(new TextEncoder().encode(char).length).fill([at, at + char.length]);
      at += char.length;
      return bytes;
    })(0));
    let end = 0;
    return ids.map((id) => {
      const start = end;
      end += id === UNK ? ofByte.findLastIndex(([from]) => from === ofByte[start]?.[0]) + 1 - start : pieces[id - SPECIALS].length;
      return [ofByte[start]?.[0] ?? text.length, ofByte[end - 1]?.[1] ?? text.length];
    });
  };
  return { encode, decode, labels: vocabulary.labels, spans };
}

/** @returns {Tokenizer} */
function makeWordTokenizer({ kind, words, pattern, labels }) {
  const ids = new Map(words.map((word, i) => [word, i + SPECIALS]));
  const parts = new RegExp(pattern, "gu");
  const encode = (text) => (text.match(parts) ?? []).map((word) => ids.get(word) ?? UNK);
  const decode = (tokens) => {
    const spaced = tokens.filter((id) => id >= UNK).map((id) => words[id - SPECIALS] ?? "⁇").join(" ");
    return kind === "words" ? spaced.replace(/ ([,.;:!?])/g, "$1") : spaced.replace(/ ?\n ?/g, "\n");
  };
  const spans = (text) => Array.from(text.matchAll(parts), ({ 0: word, index }) => /** @type {[number, number]} */ ([index, index + word.length]));
  return { encode, decode, labels, spans };
}

// The UTF-8 bytes of a text, each as one character.
function utf8(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

// Byte-pair encoding: of all neighbours, those merge first that were merged first in training.
function mergeBytes(bytes, ids) {
  if (ids.has(bytes)) return [ids.get(bytes)];
  const parts = [...bytes];
  const of = (i) => (i >= 0 && i + 1 < parts.length ? ids.get(parts[i] + parts[i + 1]) ?? Infinity : Infinity);
  const ranks = parts.map((_, i) => of(i));
  for (;;) {
    let best = 0;
    for (let i = 1; i < ranks.length; i++) if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] === Infinity) return parts.map((part) => ids.get(part));
    parts.splice(best, 2, parts[best] + parts[best + 1]);
    ranks.splice(best, 1);
    ranks[best] = of(best);
    if (best) ranks[best - 1] = of(best - 1);
  }
}

/** The tokens that each of these parts of a text consists of.
 * @param {{ start: number, end: number }[]} words
 * @param {[number, number][]} spans
 * @returns {number[][]} */
export const tokensOfWords = (words, spans) => words.map(({ start, end }) =>
  spans.flatMap(([from, to], i) => (from < end && to > start ? [i] : [])));
