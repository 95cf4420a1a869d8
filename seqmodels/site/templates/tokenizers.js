// A text's tokens, as seqmodels/data/tokenizers.py makes them. `vocabulary` is from vocabulary.py.
const SPECIALS = 4, UNK = 3;

function makeTokenizer(vocabulary) {
  const { kind } = vocabulary;
  if (kind === "words" || kind === "spaces") return makeWordTokenizer(vocabulary);
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
  return { encode, decode, labels: vocabulary.labels };
}

function makeWordTokenizer({ kind, words, pattern, labels }) {
  const ids = new Map(words.map((word, i) => [word, i + SPECIALS]));
  const parts = new RegExp(pattern, "gu");
  const encode = (text) => (text.match(parts) ?? []).map((word) => ids.get(word) ?? UNK);
  const decode = (tokens) => {
    const spaced = tokens.filter((id) => id >= UNK).map((id) => words[id - SPECIALS] ?? "⁇").join(" ");
    return kind === "words" ? spaced.replace(/ ([,.;:!?])/g, "$1") : spaced.replace(/ ?\n ?/g, "\n");
  };
  return { encode, decode, labels };
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
