// Pure functions of the pages' modules; tests/lesson/test_javascript.py runs them.
import assert from "node:assert/strict";
import test from "node:test";

const templates = new URL("../../lesson/templates/", import.meta.url);
const load = (name) => import(new URL(name, templates).href);
const { alignWords, countRight, showDifferences, splitWords } = await load("differences.js");
const { buildExample } = await load("builder.js");
const { selectWeights } = await load("attention.js");
const { makeTokenizer, tokensOfWords } = await load("tokenizers.js");
const { parseIndex, patch } = await load("page.js");
const near = (a, b) => assert.ok(a.every((x, i) => Math.abs(x - b[i]) < 1e-9), `${a} is not ${b}`);

test("words are split off punctuation, with the spaces before them", () => {
  const words = splitWords("Don't  stop – (naïve) 20-mal, 你好。");
  assert.deepEqual(words.map(({ text }) => text), ["Don't", "stop", "–", "(", "naïve", ")", "20-mal", ",", "你好", "。"]);
  assert.equal(words.map(({ space, text }) => space + text).join(""), "Don't  stop – (naïve) 20-mal, 你好。");
  assert.deepEqual(splitWords(" ab").map(({ start, end }) => [start, end]), [[1, 3]]);
});

test("omissions are shown, and a full stop keeps no word", () => {
  const show = (...texts) => showDifferences(...texts).map(({ kind, text, title }) => [kind[0], text, title]);
  assert.deepEqual(show("Der Hund", "Der Hund schläft heute."), [["s", "Der", ""], ["s", "Hund", ""], ["o", "‸", "left out: schläft heute."]]);
  assert.deepEqual(show("oft.", "neben Emma oft."), [["o", "‸", "left out: neben Emma"], ["s", "oft", ""], ["s", ".", ""]]);
  assert.deepEqual(show("a x y c z", "a b c"), [["s", "a", ""], ["s", "x", "in the reference: b"], ["i", "y", "not in the reference"], ["s", "c", ""], ["i", "z", "not in the reference"]]);
  assert.deepEqual(show("a", "a b c", false), [["s", "a", ""]]); // b and c may still come
  assert.deepEqual(show("b", "a b", false)[0], ["o", "‸", "left out: a"]);
  assert.deepEqual(showDifferences("a b", "b a c").map(({ index }) => index), [-1, 0, 1]);
});

test("an empty output has all its words marked", () => {
  assert.deepEqual(alignWords([], splitWords("a, b")).map(({ kind }) => kind), ["omission", "omission", "omission"]);
  assert.equal(showDifferences("", "a, b")[0].title, "left out: a, b");
});

test("right words are counted without punctuation, signs where there is nothing else", () => {
  assert.deepEqual(countRight("Der Hund, ja.", "Ein Hund, der ja schläft."), { right: 2, words: 5 });
  assert.deepEqual(countRight("( )", "( ( )"), { right: 2, words: 3 });
  assert.deepEqual(countRight("", ""), { right: 0, words: 0 });
});

test("the map of a head, of the mean, and with weight on the target", () => {
  const rows = [[0.1, 0.9, 0.3, 0.7, 0.2, 0.8], [0.5, 0.5, 0.4, 0.6, 0.1, 0.899], [0.25, 0.25, 0.6, 0.4, 0.9, 0.1]];
  const map = (layer, head, heads = 1, aligned = [1, 2], its = rows) =>
    selectWeights(["s", "t"], ["x", "y", "z"].slice(0, its.length), its, { heads, aligned_layers: aligned }, layer, head);
  assert.deepEqual([map("align", 0).src, map(1, 0).src], [["s", "t"], ["s", "t"]]); // 0.0005 off the source has no column
  near(map("align", 0).weights[2], [0.75, 0.25]);
  assert.deepEqual(map(1, 0).weights, rows.map((row) => row.slice(2, 4)));
  assert.deepEqual([map(0, 0).src, map(0, 0).n], [["s", "t", "the target"], 2]);
  near(map(0, 0).weights.map((row) => row[2]), [0, 0, 0.5]);
  const two = [[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]]; // 2 layers × 2 heads × 2 positions
  near(map("align", 0, 2, [1], two).weights[0], [0.6, 0.7]);
  near(map(1, 1, 2, [1], two).weights[0], [0.7, 0.8]);
});

test("the tokens of a word, of several bytes and of unknown ones", () => {
  const words = makeTokenizer({ kind: "words", words: ["a", "bc", "."], pattern: "\\p{L}+|\\.", labels: [] });
  assert.deepEqual(tokensOfWords(splitWords("bc, xy."), words.spans("bc, xy.", words.encode("bc, xy."))), [[0], [], [1], [2]]);
  const bytes = makeTokenizer({ kind: "bytes", labels: [] }), text = "é 你b";
  assert.deepEqual(tokensOfWords(splitWords(text), bytes.spans(text, bytes.encode(text))), [[0, 1], [3, 4, 5, 6]]);
  const characters = makeTokenizer({ kind: "characters", characters: "ab ", labels: [] });
  assert.deepEqual(characters.encode("aé b"), [4, 3, 6, 5]);
  assert.deepEqual(tokensOfWords(splitWords("aé b"), characters.spans("aé b", [4, 3, 6, 5])), [[0, 1], [3]]);
});

test("only what has changed is made anew", () => {
  const root = { children: [], append(node) { node.parent = root; this.children.push(node); }, get lastElementChild() { return this.children.at(-1); } };
  const made = [];
  const make = (item) => {
    made.push(item);
    return { dataset: {}, remove: () => root.children.pop(), replaceWith(node) { root.children.splice(root.children.indexOf(this), 1, node); } };
  };
  const show = (...items) => { patch(root, items, String, make); return root.children.map(({ dataset }) => dataset.key).join(""); };
  assert.equal(show("a", "b", "c"), "abc");
  const [kept] = root.children;
  assert.equal(show("a", "x"), "ax");
  assert.equal(root.children[0], kept);
  assert.deepEqual(made, ["a", "b", "c", "x"]);
});

test("an index of the address is read, or replaced", () => {
  assert.deepEqual(["1", "2", "-1", "", "x", "1.5", undefined].map((value) => parseIndex(value, 2, -1)), [1, -1, -1, -1, -1, -1, -1]);
});

test("clauses are joined in both languages, and only names and nouns keep their capitals", () => {
  const examples = [{ x: 2, src: "Anna ran.", ref: "Anna lief." }, { x: 2, src: "The cat, ran.", ref: "Die Katze, lief." }, { x: 3, src: "He ran.", ref: "Er lief." }];
  const build = (address) => buildExample(address, examples, { and: "und", but: "aber" }, new Set(["the", "he", "er", "die", "katze,"]));
  const { src, ref, x } = build("2.1,and.3.0,but.2.0");
  assert.deepEqual([src, ref, x], ["The cat, ran, and he ran, but Anna ran.", "Die Katze, lief, und er lief, aber Anna lief.", 9]);
  assert.deepEqual(["2.0", "2.2", "2.0,or.3.0", "2.0,3.0", "", "2.0,and.toString.0"].map((address) => build(address)?.x), [2, undefined, undefined, undefined, undefined, undefined]);
});
