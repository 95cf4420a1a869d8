// The pages' modules, their pure functions and, on fake elements, what they do; test_javascript.py runs this.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";

const templates = new URL("../../lesson/templates/", import.meta.url);
const include = (name) => import(new URL(name, templates).href);
const { alignWords, countRight, showDifferences, splitWords } = await include("differences.js");
const { buildExample } = await include("builder.js");
const { selectWeights } = await include("attention.js");
const { makeTokenizer, tokensOfWords } = await include("tokenizers.js");
const { parseIndex } = await include("page.js");
const read = (name, folder = import.meta.url) => readFileSync(new URL(name, folder), "utf8");
const near = (a, b) => assert.ok(a.every((x, i) => Math.abs(x - b[i]) < 1e-9), `${a} is not ${b}`);

// A script and the modules that it imports, in the order of layout.script.
function join(name, modules = new Map()) {
  const text = read(name, templates);
  for (const [, one] of text.matchAll(/^import .* from "\.\/(.*)";$/gm)) if (!modules.has(one)) join(one, modules);
  return [...modules.set(name, text.replaceAll(/^import .*\n|^export /gm, "")).values()].join("");
}

// Run a script on fake elements; return a function that evaluates an expression beside it.
const load = (name, given = {}, before = "") => new Function("given",
  `"use strict"; ${read("fake_dom.js")} ${before} return (() => { ${join(name)} return (text) => eval(text); })();`)(given);

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
  assert.deepEqual(countRight("a, b c d.", "a c"), { right: 2, words: 4 }); // of the longer
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
  const ask = load("page.js"), root = ask("document.body"), made = [];
  const show = (...items) => { ask("patch")(root, items, String, (item) => { made.push(item); return ask("element")("p"); }); return root.children.map(({ dataset }) => dataset.key).join(""); };
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

// ------------------------------------------------------------------------------- What pages share
test("an address is read and changed key by key", () => {
  const ask = load("page.js", { hash: "#a=1&b=x%20y" });
  assert.deepEqual(ask("readAddress()"), { a: "1", b: "x y" });
  assert.equal(ask("addressWith({ b: '&', c: '' })"), "#a=1&b=%26&c=");
  const [list, chosen] = ask(`[chooser("which", "b", [[0, "no"], ["z", "yes"]], "z")].map((label) => [label.children[0], label.children[0].value])[0]`);
  assert.deepEqual([chosen, list.children.map(({ value, textContent }) => [value, textContent])], ["z", [["0", "no"], ["z", "yes"]]]);
  list.value = "0";
  ask("fire")(list, "change");
  assert.equal(ask("location.hash"), "#a=1&b=0");
  assert.deepEqual(ask(`[link("t", { a: 2 }, true), link("t", {}), element("line", { x1: 0, y1: null })].map(({ attributes }) => attributes)`),
    [{ href: "#a=2&b=0", "aria-current": "true" }, { href: "#a=1&b=0" }, { x1: "0" }]);
});

test("a table is quoted, numbers are not", () => {
  const address = load("page.js")(`csvAddress([["a", 'b, "c"'], [1.5, "x"]])`);
  assert.equal(decodeURIComponent(address), 'data:text/csv;charset=utf-8,"a","b, ""c"""\n1.5,"x"');
});

test("a part is unpacked, and its compressed bytes are counted", async () => {
  const packed = gzipSync("né"), counts = [];
  const content = await load("page.js")("unpack")({ base64: packed.toString("base64") }, (n) => counts.push(n));
  assert.deepEqual([Buffer.from(content).toString(), counts.reduce((a, b) => a + b)], ["né", packed.length]);
});

test("a section drawn anew keeps the focus", () => {
  for (const [html, focus] of [["<input data-key=p><input data-key=q>", "[data-key=q]"], ["<p>a</p>", null]]) {
    const ask = load("page.js", { html: `<div id=old>${html}</div>`, new: html });
    ask(`(query("${focus}") ?? document.body).focus(); redraw(query("#old"), ...parse(given.new).children)`);
    assert.equal(ask(`document.activeElement === (query("${focus}") ?? document.body)`), true, html);
  }
});

// -------------------------------------------------------------------------------- Charts and maps
const RUNS = [{ label: "A", colour: "#a", is_vector: true }, { label: "B", colour: "#b" }, { label: "C", colour: "#c" }];

test("a dot is at its length and share, once, beside those of other models", () => {
  const chart = (given) => load("strip.js", { runs: RUNS, first: 2, last: 12, limit: null, unit: "symbols", ...given })("new StripChart(given)");
  const strip = chart();
  assert.deepEqual([[2, 7, 12].map(strip.x), [0, 0.25, 1].map(strip.y)], [[48, 202, 356], [180, 137, 8]]);
  assert.deepEqual([[2, "s", 7, 1, 4], [2, "s", 8, 2, 4], [0, "s", 12, 3, 3], [1, "s", 7, 0, 0]].map((dot) => strip.add(...dot)), [true, false, true, false]);
  const dots = strip.svg.all(".dot").map(({ localName, attributes: { style, cx, x, cy, y } }) => [localName, style, cx ?? x, cy ?? y]);
  assert.deepEqual(dots, [["circle", "--model: #c", "204.5", "137"], ["rect", "--model: #a", "349.5", "4"]]);
  assert.equal(decodeURIComponent(strip.address).split(",").slice(1).join(), 'charset=utf-8,"model","symbols of the source","right","of the longer"\n"C",7,1,4\n"A",12,3,3'.split(",").slice(1).join());
  assert.match(strip.svg.attributes["aria-label"], /: 2 dots,/);
  const limits = [null, 1, 2, 11, 12].map((limit) => chart({ limit }).svg.all(".limit").map(({ attributes }) => attributes.x1));
  assert.deepEqual(limits, [[], [], ["48"], ["325.2"], []]);
  assert.deepEqual(strip.svg.all("text").map(({ textContent }) => textContent), ["0 %", "50 %", "100 %", "2", "12", "symbols of the source"]);
  assert.equal(chart({ last: 2 }).x(2), 48);
});

test("the address names a layer and a head, or the mean", () => {
  const cases = [["l=1&h=2", 1, 2], ["l=2&h=3", "align", 0], ["l=a1&h=1", "a1", 1], ["l=b1", "align", 0], ["", "align", 0], ["l=0&h=-1", 0, 0]];
  for (const [hash, layer, head] of cases) {
    assert.deepEqual(load("attention.js", { hash: `#${hash}` })("selectedHead({ layers: 2, heads: 3 }, ['a0', 'a1'])"), { layer, head }, hash);
  }
});

const SIZES = { layers: 1, heads: 1, aligned_layers: [0] };
test("a map is read by pointer and by arrow keys, and grows by rows", () => {
  const ask = load("attention.js"), panel = ask("new AttentionPanel('h2')"), fire = ask("fire");
  const rows = [[0.125, 0.875], [0.004, 0.996], [0.003, 0.997]], tgt = ["x", "y", "z"];
  const show = (n, id = "1", more = {}) => panel.show({ models: [[0, "A"], [4, "B"]], run: 4, label: "B", sizes: SIZES, src: ["s", "tt"], tgt: tgt.slice(0, n), rows: rows.slice(0, n), id, ...more });
  const cells = () => panel.map.cells.all(".cell"), readout = () => panel.map.readout.textContent;
  show(0);
  assert.deepEqual([panel.map.root.hidden, panel.note.hidden, panel.note.textContent], [true, false, "nothing is written yet"]);
  show(1);
  const [first] = cells();
  const press = (key) => { fire(panel.map.root, "keydown", { key }); return readout(); };
  assert.deepEqual(["ArrowRight", "ArrowRight", "ArrowDown"].map(press), ["x → s: 0.125", "x → tt: 0.875", "x → tt: 0.875"]);
  show(3);
  assert.equal(cells()[0], first); // rows that are drawn stay
  assert.deepEqual(cells().map(({ attributes: { x, y, "fill-opacity": weight } }) => [+x, +y, +weight]), [[0, 0, 0.125], [18, 0, 0.875], [0, 18, 0.004], [18, 18, 0.996], [18, 36, 0.997]]);
  assert.deepEqual([panel.map.left, panel.map.top].map((side) => side.all("text").map(({ textContent }) => textContent)), [tgt, ["s", "tt"]]);
  assert.deepEqual(["ArrowDown", "ArrowLeft", "ArrowUp"].map(press), ["y → tt: 0.996", "y → s: 0.004", "x → s: 0.125"]);
  assert.deepEqual([[17, 36], [18, 35]].map(([clientX, clientY]) => { fire(panel.map.cells, "click", { clientX, clientY }); return readout(); }), ["z → s: 0.003", "y → tt: 0.996"]);
  assert.deepEqual(["x", "y", "visibility"].map((key) => panel.map.cursor.attributes[key]), ["18", "18", "visible"]);
  assert.equal(decodeURIComponent(panel.links.all("a")[0].attributes.href).split("utf-8,")[1], '"","s","tt"\n"x",0.125,0.875\n"y",0.004,0.996\n"z",0.003,0.997');
  assert.equal(panel.controls.all("[data-key=m]")[0].value, 4);
  show(2, "2", { isFinished: false });
  assert.deepEqual([cells().length, panel.links.hidden, press("ArrowDown")], [4, true, "y → s: 0.004"]); // of another text: from the start
  show(2, "2", { note: "why" });
  assert.deepEqual([panel.map.root.hidden, panel.note.textContent], [true, "why"]);
});

test("layers and heads are listed where there are several", () => {
  const listed = (hash, sizes, more = {}) => load("attention.js", { hash })("(given) => new AttentionPanel('h2').show(given)")({ models: [[0, "A"]], run: 0, label: "A", sizes, ...more })
    .all("select").map((list) => [list.value, list.children.map(({ value }) => value).join(" ")]);
  assert.deepEqual(listed("", SIZES), [[0, "0"], ["align", "align"]]);
  assert.deepEqual(listed("#l=1&h=2", { ...SIZES, layers: 2, heads: 3 }, { others: [["a0", "x"]] }), [[0, "0"], [1, "align 0 1 a0"], [2, "0 1 2"]]);
  assert.deepEqual(listed("#l=0", { ...SIZES, layers: 2 }), [[0, "0"], [0, "align 0 1"], [0, "0"]]);
});

// --------------------------------------------------------------------------- The opening picture
test("a sentence is read, then written, and a word's lines lead to where it looks", () => {
  const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", weights = (...all) => all.map((x) => LEVELS[x]).join("");
  const row = { src: "A b.", ref: "C d e.", outputs: ["C x.", "C d e.", "C e."], vectors: ["A", "B", "C", "D"], annotations: ["AA", "BB", "CC", "DD"],
    weights: [weights(63, 0, 0, 0), weights(0, 32, 31, 0), weights(0, 63, 0, 0), weights(0, 0, 0, 63)], best: ["A", "B"], steps: [0, 5, 9] };
  const machine = `<section class="machine"><div class="cells"></div><p class="said"></p><p class="right"></p></section>`;
  const html = `<figure id="opening" hidden><button id="play"></button><output></output><input id="length" value="0"><input id="moment">
    <p class="read"></p>${machine.repeat(3)}<p class="verdict"></p></figure>`;
  const ask = load("opening.js", { html, data: JSON.stringify([row]) }), all = (path) => ask("document").all(path), [, moment] = all("input");
  const seen = (path) => all(path).filter((node) => !node.closest(".ahead")).map(({ textContent }) => textContent).join(" ");
  assert.deepEqual([".read .w", ".said .w", ".right"].map(seen), ["A b .", "C x . C d e . C e .", "33 % right: 1 of 3 words 100 % right: 3 of 3 words 67 % right: 2 of 3 words"]);
  assert.deepEqual([moment.value, all("output")[0].textContent, all("figure")[0].hidden], ["8", "2 words", false]); // motion is reduced
  assert.deepEqual([ask("readLevels")("A/"), ask("splitMoment")(3, 4), ask("splitMoment")(6, 4)], [[-1, 1], { read: 3, written: 0 }, { read: 4, written: 2 }]);
  assert.deepEqual([ask("findLooks")(), ask("findLooks")(weights(63, 3, 4)).map(({ place }) => place)], [[{ place: 0, weight: 1 }], [0, 2]]);
  assert.equal(new Set([[0.9, 1], [0.5, 1], [0.5, 0.6], [0.5, 0.5]].map((two) => ask("judge")(...two))).size, 4);
  moment.value = "5";
  ask("fire")(moment, "input");
  assert.deepEqual(seen(".said .w"), "C C C");
});

// ------------------------------------------------------------------------------------- Training
const part = (content) => gzipSync(content).toString("base64");
const TRAINING = { data: JSON.stringify({ runs: RUNS.slice(0, 2), alphabet: "pqrst", n_pairs: 3, max_words: 4, seed: 1, max_steps: 53, files: {}, ids: { PAD: 0, BOS: 1, EOS: 2, first: 4 } }),
  html: `<input id="length" value="3">${["words", "longest", "step", "status", "source", "losses", "shares", "losses-csv", "shares-csv"].map((id) => `<p id="${id}"></p>`).join("")}
    <button id="train">Train</button><button id="again"></button>${[0, 1].map((i) => `<div id="run-${i}"><p class="loss"></p><p class="right"></p><p class="written"></p></div>`).join("")}
    ${["worker", "wasm", "theta-0", "graph-0", "theta-1", "graph-1"].map((id) => `<p id="${id}">${part(id)}</p>`).join("")}` };

// The lengths of the sentences of a message.
const lengthsOf = ({ src }) => [0, 1, 2].map((row) => src.slice(4 * row, 4 * row + 4).filter(Boolean).length);

// A page that trains, the batches that it has sent, and what answers the next one: model i has the first
// i + 1 words right, and all that is behind them.
function openTraining() {
  const sent = [], loads = [];
  let post;
  const worker = (postMessage) => { post = postMessage; return ({ data }) => { if (data.src) sent.push(data); else loads.push(data.train); }; };
  const ask = load("training.js", { ...TRAINING, worker });
  const answer = (steps = ask("history.length") + 1) => post({ steps: [0, 1].map((i) => ({ loss: i ? 0.25 : 4 - steps / 4,
    best: Uint8Array.from(lengthsOf(sent.at(-1)).flatMap((n, row) => [0, 1, 2, 3, 4].map((j) => (j <= i || j >= n ? sent.at(-1).tgt[6 * row + j + 1] : 2)))) })) });
  const click = (id) => { ask("fire")(ask("document").all(id)[0], "click"); return [sent.length, ask("button.textContent"), ask("document").all("#step")[0].textContent]; };
  return { ask, sent, loads, answer, click, post: (message) => post(message), text: (id) => ask("document").all(id)[0].textContent };
}

test("numbers and sentences are the same for a seed", () => {
  const { ask } = openTraining(), draw = ask("makeRandom(1)"), other = ask("makeRandom(2 ** 31)");
  near([draw(), draw(), other()], [0.6270739405881613, 0.002735721180215478, 0.8205775609239936]);
  const given = [0.99, 0, 0.99, 0.2, 0, 0.5, 0.4, 0.8, 0.19];
  assert.deepEqual(ask("drawBatch")(() => given.shift(), 3), { sentences: [[4, 8, 5], [6], [8, 4]],
    src: [4, 8, 5, 0, 6, 0, 0, 0, 8, 4, 0, 0], tgt: [1, 4, 8, 5, 2, 0, 1, 6, 2, 0, 0, 0, 1, 8, 4, 2, 0, 0] });
});

test("a training can be paused and started over, and ends", async () => {
  const page = openTraining(), { ask, sent, answer, click, post } = page, button = () => ask("button.disabled");
  await ask("until")(() => page.loads.length === 3);
  assert.deepEqual([page.loads, button()], [[undefined, 0, 1], true]);
  post({ loaded: 0 });
  assert.equal(button(), true);
  post({ loaded: 1 });
  assert.deepEqual([button(), page.text("#status"), page.text(".loss"), page.text(".right")], [false, "Ready.", "–", "–"]);
  assert.deepEqual([click("#train"), page.text("#status")], [[1, "Pause", "0 steps"], "Training."]);
  answer();
  assert.deepEqual([sent.length, sent.map(({ isFirst, pairs }) => [isFirst, pairs])], [2, [[true, 3], [false, 3]]]);
  assert.notDeepEqual(sent[0].src, sent[1].src);
  assert.deepEqual([click("#train"), page.text("#status")], [[2, "Go on", "1 steps"], "Paused."]);
  answer();
  assert.deepEqual([click("#train"), click("#again")], [[3, "Pause", "2 steps"], [3, "Train", "0 steps"]]);
  answer(); // to what has been given up
  assert.deepEqual(click("#train"), [4, "Pause", "0 steps"]);
  assert.deepEqual([sent[3].src, sent[3].isFirst], [sent[0].src, true]);
  while (ask("isWaiting")) answer();
  assert.deepEqual([sent.length, button(), page.text("#status"), page.text("#step")], [56, true, "Done.", "53 steps"]);
  ask("length.value = '2'; fire(length, 'input')");
  assert.deepEqual([page.text("#step"), page.text("#words"), button()], ["0 steps", "2 words", false]);
  click("#train");
  while (ask("isWaiting")) answer();
  assert.deepEqual(new Set(sent.slice(56).flatMap(lengthsOf)), new Set([1, 2]));
  post({ failed: "no memory" });
  assert.equal(page.text("#status"), "no memory");
});

test("a page that cannot train says why, and from a disk what to do", async () => {
  const html = `<main>${TRAINING.html}<div id="failed" hidden><p id="why"></p><p id="served"></p></div></main>`, files = { worker: "live-worker.bin?1" };
  const see = (ask) => [ask("document").all("main")[0].className, ...["failed", "served"].map((id) => Boolean(ask("document").all(`#${id}`)[0].hidden)), ask("document").all("#why")[0].textContent];
  const disk = load("training.js", { html, data: JSON.stringify({ ...JSON.parse(TRAINING.data), files }), protocol: "file:" });
  await disk("until")(() => !disk("document").all("#failed")[0].hidden);
  assert.deepEqual(see(disk), ["failed", false, false, "this page was opened from a disk"]);
  let post;
  const served = load("training.js", { html, data: TRAINING.data, worker: (send) => { post = send; return () => {}; } });
  await served("until")(() => post);
  post({ failed: "no memory" });
  assert.deepEqual(see(served), ["failed", false, true, "no memory"]);
});

test("losses and shares are those of the last batches", async () => {
  const { ask, sent, answer, click, post, text } = openTraining();
  await ask("until")(() => ask("worker"));
  [0, 1].forEach((loaded) => post({ loaded }));
  click("#train");
  while (ask("isWaiting")) answer();
  const lengths = sent.slice(3).flatMap(lengthsOf), counts = [1, 2, 3].map((n) => lengths.filter((one) => one === n).length);
  const expected = [0, 1].map((i) => counts.map((n, k) => [k + 1, Math.min(i + 1, k + 1) * n, (k + 1) * n]));
  assert.deepEqual(ask("countRight()"), expected);
  const rows = (id) => decodeURIComponent(ask("document").all(id)[0].href).split("utf-8,")[1].split("\n");
  assert.deepEqual([rows("#losses-csv")[0], rows("#losses-csv")[53], rows("#shares-csv").slice(0, 3)],
    ['"step","A","B"', "53,-9.25,0.25", ['"model","words","right","of"', `"A",1,${counts[0]},${counts[0]}`, `"A",2,${counts[1]},${2 * counts[1]}`]]);
  assert.deepEqual([0, 1].map((i) => [text(`#run-${i} .loss`), text(`#run-${i} .right`)]), [["-9.250", "33 %"], ["0.250", "67 %"]]);
  const points = (id) => ask("document").all(`${id} polyline`).map(({ attributes }) => attributes.points.replaceAll(/\.\d{9,}/g, "").split(" "));
  assert.deepEqual(points("#shares"), [["52,10", "197,115", "342,150"], ["52,10", "197,10", "342,80"]]);
  assert.deepEqual(points("#losses").map((its) => [its.length, its[0], its[9]]), [[53, "54.9,10", "81,115"], [53, "54.9,202.5", "81,202.5"]]);
  assert.deepEqual(["rect", "circle"].map((name) => ask("document").all(`#shares ${name}`).length), [3, 3]);
  const last = lengthsOf(sent.at(-1)), row = last.indexOf(Math.max(...last)), letters = sent.at(-1).src.slice(4 * row, 4 * row + last[row]).map((id) => "pqrst"[id - 4]);
  assert.equal(text("#source"), letters.join(""));
  assert.deepEqual([0, 1].map((i) => text(`#run-${i} .written`)), [1, 2].map((n) => letters.map((letter, j) => (j < n ? letter : "▪")).join("")));
  assert.deepEqual([0, 1].map((i) => ask("document").all(`#run-${i} mark`).length), [letters.length - 1, letters.length - 2]);
});

test("each model takes its steps from its own state, which starts anew", async () => {
  const fed = [], messages = [], Tensor = class { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } };
  const create = async (bytes) => ({ run: async ({ theta, m, v, t, src, tgt }) => {
    const rate = Number(new TextDecoder().decode(bytes));
    fed.push([rate, ...[theta, m, v].map(({ data }) => [...data]), t.data[0], [...src.data].join(""), src.dims, tgt.dims]);
    theta.data[0] -= rate;
    const next = { "theta'": theta, "m'": new Tensor("", m.data.map((x) => x + 1), m.dims), "v'": new Tensor("", v.data.map((x) => x + 2), v.dims), "t'": new Tensor("", [t.data[0] + 1], []) };
    return { ...next, loss: { data: [theta.data[0]] }, best: { data: [rate] } };
  } });
  const ask = load("worker.js", { ort: { Tensor, InferenceSession: { create } }, postMessage: (message) => messages.push(message) }, "let onmessage; const { ort, postMessage } = given;");
  const theta = (...numbers) => ({ base64: part(new Uint8Array(Float32Array.from(numbers).buffer)) }), post = (data) => ask("onmessage")({ data });
  for (const [i, numbers] of [[0, [8, 9]], [1, [7]]]) await post({ train: i, theta: theta(...numbers), graph: { base64: part(String(i + 2)) } });
  for (const isFirst of [true, false, true]) await post({ src: [4, 5, 6, 7], tgt: [1, 4, 2, 1, 6, 2], pairs: 2, isFirst });
  const shapes = ["4567", [2, 2], [2, 3]], one = [[2, [8, 9], [0, 0], [0, 0], 0, ...shapes], [3, [7], [0], [0], 0, ...shapes]];
  assert.deepEqual(fed, [...one, [2, [6, 9], [1, 1], [2, 2], 1, ...shapes], [3, [4], [1], [2], 1, ...shapes], ...one]);
  assert.deepEqual(messages, [{ loaded: 0 }, { loaded: 1 }, ...[[6, 4], [4, 1], [6, 4]].map((losses) => ({ steps: losses.map((loss, i) => ({ loss, best: [i + 2] })) }))]);
  assert.deepEqual([...ask("interleave")(Uint8Array.of(1, 2, 3, 4, 5, 6))], [1, 4, 2, 5, 3, 6]);
  assert.equal(await ask("sha256")(new TextEncoder().encode("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});

// ------------------------------------------------------------------------- Parts of the live page
const MODELS = { data: JSON.stringify({ runs: [{ manifest: { max_tokens: null } }], vocabulary: { kind: "words", words: [], pattern: "\\S+", labels: [] }, case: null }) };

test("the examples of a bucket are spread over it", () => {
  const examples = [2, 3, 3, 5, 6, 6, 7, 9].map((x, i) => ({ x, i }));
  const sample = load("exercise.js", MODELS)("sampleBuckets")(examples, [{ low: 3, high: 6 }, { low: 7, high: 8 }, { low: 10, high: 11 }], 2);
  assert.deepEqual(sample.map((its) => its.map(({ i }) => i)), [[1, 3], [6], []]);
});

test("a request ends when all have finished, or when another comes", async () => {
  const ask = load("models.js", MODELS), texts = [];
  const first = ask("requestTexts")([{ a: 1 }], () => {}), second = ask("requestTexts")([{ b: 2 }, { problem: "long" }, { c: 3 }], (message) => texts.push(message.job));
  assert.equal(await first, false);
  assert.deepEqual(ask("waiting"), [{ turn: 1, jobs: [{ a: 1, job: 0 }] }, { turn: 2, jobs: [{ b: 2, job: 0 }, { c: 3, job: 2 }] }]);
  let isDone = "open";
  second.then((value) => { isDone = value; });
  for (const [message, expected] of [[{ job: 2, finished: true }, "open"], [{ job: 0, token: 5 }, "open"], [{ job: 0, finished: true }, true]]) {
    ask("receive")(message);
    await new Promise((go) => setTimeout(go));
    assert.equal(isDone, expected);
  }
  assert.deepEqual([texts, await ask("requestTexts")([{ problem: "long" }], () => {})], [[2, 0, 0], true]);
});

test("the rows of the last queries are those on the source", () => {
  const layer = (first, [H, Q, M]) => ({ weights: Float32Array.from({ length: H * Q * M }, (_, i) => first + i), dims: [H, Q, M] });
  const rows = load("models.js", MODELS)("rowsOnSource")([layer(0, [2, 3, 4]), layer(100, [1, 2, 3])], 2, 2);
  assert.deepEqual(rows.map((row) => [...row]), [[4, 5, 16, 17, 100, 101], [8, 9, 20, 21, 103, 104]]);
});

test("clauses are offered, joined and taken back", () => {
  const long = `The owl ${"and the owl ".repeat(4)}.`, examples = [[3, "The cat ran."], [4, "An owl sat, today."], [3, "The cattle ran."], [12, "Anna."], [13, long]].map(([x, src]) => ({ x, src, ref: "" }));
  const html = `<form id="build"><select id="clause"></select><input id="with"><p id="found"></p><button name="join" value=""></button><button name="join" value="and"></button><button name="shorter" value="shorter"></button></form>`;
  const ask = load("builder.js", { html }), shown = [], find = (selector) => ask("document").all(selector)[0];
  let current = "";
  const update = ask("setUpBuilder")(examples, () => current, (address) => shown.push(address));
  const offered = (text) => {
    Object.assign(find("#with"), { value: text });
    ask("fire")(find("#with"), "input");
    return [find("#clause").children.map(({ value }) => value).join(" "), find("#found").textContent, ask("document").all("button").map(({ disabled }) => Number(disabled)).join("")];
  };
  assert.deepEqual(["", " CAT", "cat the", "owl ran", "oday"].map(offered), [["3.0 4.0 3.1 12.0", "4 to choose from", "011"], ["3.0 3.1", "2 to choose from", "011"], ["3.0 3.1", "2 to choose from", "011"],
    ["", "no short clause has it", "111"], ["", "no short clause has it", "111"]]);
  current = "3.0,and.4.0";
  update();
  assert.equal(offered("today")[2], "000");
  find("#clause").value = "4.0";
  for (const i of [0, 1, 2]) ask("fire")(find("#build"), "submit", { submitter: ask("document").all("button")[i] });
  assert.deepEqual(shown, ["4.0", "3.0,and.4.0,and.4.0", "3.0"]);
});

// ------------------------------------------------------------------------------------ The report
