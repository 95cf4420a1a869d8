// The pages' modules, their pure functions and, on fake elements, what they do; test_javascript.py runs this.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";

const templates = new URL("../../lesson/templates/", import.meta.url);
const include = (name) => import(new URL(name, templates).href);
const { countRight, showDifferences, splitWords } = await include("differences.js");
const { selectWeights } = await include("attention.js");
const { makeTokenizer, tokensOfWords } = await include("tokenizers.js");
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
  const drawn = load("differences.js")("showDifferences('a x y', 'a b c d').map(markPart)"), marks = drawn.flatMap((node) => node.all("mark"));
  assert.deepEqual(marks.map(({ className, title, textContent }) => [className, title, textContent]),
    [["substitution", "in the reference: b", "x"], ["substitution", "in the reference: c", "y"], ["gap", "left out: d", "‸ (left out: d) "]]);
  assert.deepEqual(drawn.map((node) => [node.textContent[0], node.all(".w").map(({ dataset }) => dataset.w).join("")]), [["a", "0"], [" ", "1"], [" ", "2"], ["‸", ""]]);
});

test("right words are counted without punctuation, signs where there is nothing else", () => {
  assert.deepEqual(countRight("Der Hund, ja.", "Ein Hund, der ja schläft."), { right: 2, words: 5 });
  assert.deepEqual(countRight("( )", "( ( )"), { right: 2, words: 3 });
  assert.deepEqual(countRight("a, b c d.", "a c"), { right: 2, words: 4 }); // of the longer
  assert.deepEqual(countRight("", ""), { right: 0, words: 0 });
});

test("the map of a head, of the mean, and with weight on the target", () => {
  const rows = [[0.1, 0.9, 0.3, 0.7, 0.2, 0.8], [0.5, 0.5, 0.4, 0.6, 0.1, 0.87], [0.25, 0.25, 0.6, 0.4, 0.9, 0.1]];
  const map = (layer, head, heads = 1, aligned = [1, 2], its = rows) =>
    selectWeights(["s", "t"], ["x", "y", "z"].slice(0, its.length), its, { heads, aligned_layers: aligned }, layer, head);
  assert.deepEqual([map("align", 0), map(1, 0), map(2, 0)].map(({ src }) => src[2]), [undefined, undefined, "the target"]); // 0.015 off the source has no column, 0.03 has
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

test("a part is unpacked, and its compressed bytes are counted", async () => {
  const packed = gzipSync("né"), counts = [];
  const content = await load("page.js")("unpack")({ base64: packed.toString("base64") }, (n) => counts.push(n));
  assert.deepEqual([Buffer.from(content).toString(), counts.reduce((a, b) => a + b)], ["né", packed.length]);
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
  assert.deepEqual([panel.map.left, panel.map.top].map(({ attributes: { width, height } }) => [width, height]), [["18", "18"], ["36", "26"]]); // 8 a letter, and 10
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
  assert.deepEqual([panel.map.cells.attributes["aria-label"], panel.map.cells.all(".frame")[0].attributes.height], ["B: 3 target tokens attend to 2 source tokens", "54"]);
  assert.match(panel.legend.textContent, /^Rows: target tokens/);
  show(2, "2", { isFinished: false });
  assert.deepEqual([cells().length, panel.links.hidden, press("ArrowDown")], [4, true, "y → s: 0.004"]); // of another text: from the start
  show(2, "2", { note: "why" });
  assert.deepEqual([panel.map.root.hidden, panel.note.textContent], [true, "why"]);
  show(1, "3", { rows: [[0.5, 0.25]] });
  assert.deepEqual(panel.map.top.all("text").map(({ attributes }) => attributes["font-style"]), [undefined, undefined, "italic"]);
});

test("layers and heads are listed where there are several", () => {
  const listed = (hash, sizes, more = {}) => load("attention.js", { hash })("(given) => new AttentionPanel('h2').show(given)")({ models: [[0, "A"]], run: 0, label: "A", sizes, ...more })
    .all("select").map((list) => [list.value, list.children.map(({ textContent }) => textContent).join(", ")]);
  assert.deepEqual(listed("", SIZES), [[0, "A"], ["align", "its weights"]]);
  assert.deepEqual(listed("#l=1&h=2", { ...SIZES, layers: 2, heads: 3 }, { others: [["a0", "x"]], names: ["", "noun"] }),
    [[0, "A"], [1, "mean over the heads of the last layer, to the source, layer 1, to the source, layer 2, x"], [2, "head 1, head 2: noun, head 3"]]);
  assert.deepEqual(listed("#l=0", { ...SIZES, layers: 2 }), [[0, "A"], [0, "mean over the source, layer 1, layer 2"], [0, "head 1"]]);
});

test("a dot stands at its length and share, once, and the end of training is marked", () => {
  const runs = [{ label: 'A "1"', colour: "#1", is_vector: true }, { label: "B", colour: "#2", is_vector: false }];
  const make = load("strip.js")("(given) => new StripChart(given)"), chart = (limit) => make({ runs, first: 3, last: 9, limit, unit: "words" });
  assert.deepEqual([2, 3, 6, 9, null].map((limit) => chart(limit).svg.all(".limit").length), [0, 1, 1, 0, 0]);
  const one = chart(6), added = [[0, "s", 9, 1, 4], [0, "s", 9, 1, 4], [1, "s", 3, 2, 2], [1, "t", 4, 0, 0]].map((its) => one.add(...its));
  assert.deepEqual(added, [true, false, true, false]);
  assert.deepEqual(one.svg.all(".dot").map(({ attributes: { x, y, cx, cy } }) => [x ?? cx, y ?? cy]), [["350.75", "133"], ["49.25", "8"]]);
  assert.equal(decodeURIComponent(one.address).split("utf-8,")[1], '"model","words of the source","right","of the longer"\n"A ""1""",9,1,4\n"B",3,2,2');
});

// --------------------------------------------------------------------------------- The report
test("a bucket lists the sentences between its ends, and a choice shows one", async () => {
  const html = `<table id="scores"><thead><tr>${"<th><a></a></th>".repeat(2)}</tr></thead></table><p class="count"></p><ul class="pick"></ul><div id="example"></div><div id="attention"></div>`;
  const examples = [[9, 3], [4, 5], [5, 7], [8, 11]].map(([x, n]) => ({ x, src: `s${x}`, ref: "a b c", hyps: [n > 5 ? "a b" : "a", null], scores: [n, -n] }));
  const data = { buckets: [{ low: 1, high: 4, name: "1–4" }, { low: 5, high: 9, name: "5–9" }], start: 1, runs: ["A", "B"], maps: {}, examples };
  const ask = load("report.js", { html, data: JSON.stringify(data) }), all = (path) => ask("document").all(path);
  const go = async (hash) => {
    ask("location").hash = hash;
    await ask("render")();
    return [".pick span", "[aria-selected=true] span", "#example td"].map((path) => all(path).map(({ textContent }) => textContent).join(" "));
  };
  assert.deepEqual(await go(""), ["s9 s5 s8", "s9", "a‸ (left out: b c)  1 of 3 3 – – -3"]);
  assert.deepEqual(await go("#e=2"), ["s9 s5 s8", "s5", "a b‸ (left out: c)  2 of 3 7 – – -7"]);
  assert.deepEqual((await go("#b=0&e=2")).slice(0, 2), ["s4", "s4"]);
  assert.equal(all(".count")[0].textContent, "1 of 1–4, the largest difference between models first");
});

// --------------------------------------------------------------------------- The opening picture
const MACHINE = `<section class="machine"><div class="cells"></div><p class="said"></p><p class="right"></p></section>`;
const OPENING = `<figure id="opening" hidden><button id="play"></button><output></output><input id="length" value="0"><input id="moment"><p class="read"></p>${MACHINE.repeat(3)}</figure>`;
test("a sentence is read, then written, and a word's lines lead to where it looks", () => {
  const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", weights = (...all) => all.map((x) => LEVELS[x]).join("");
  const row = { src: "A b.", ref: "C d e.", outputs: ["C x.", "C d e.", "C e."], vectors: ["A", "B", "C", "D"], annotations: ["AA", "BB", "CC", "DD"],
    weights: [weights(63, 0, 0, 0), weights(0, 32, 31, 0), weights(0, 63, 0, 0), weights(0, 0, 0, 63)], best: ["A", "B"], steps: [0, 5, 9] };
  const ask = load("opening.js", { html: OPENING, data: JSON.stringify([row]) }), all = (path) => ask("document").all(path), [, moment] = all("input");
  const seen = (path) => all(path).filter((node) => !node.closest(".ahead")).map(({ textContent }) => textContent).join(" ");
  assert.deepEqual([".read .w", ".said .w", ".right"].map(seen), ["A b .", "C x . C d e . C e .", "33 % right: 1 of 3 words 100 % right: 3 of 3 words 67 % right: 2 of 3 words"]);
  assert.deepEqual([moment.value, all("output")[0].textContent, all("figure")[0].hidden], ["8", "2 words", false]); // motion is reduced
  assert.deepEqual([ask("readLevels")("A/"), ask("splitMoment")(3, 4), ask("splitMoment")(6, 4)], [[-1, 1], { read: 3, written: 0 }, { read: 4, written: 2 }]);
  assert.deepEqual([ask("findLooks")(), ask("findLooks")(weights(63, 3, 4)).map(({ place }) => place)], [[{ place: 0, weight: 1 }], [0, 2]]);
  const shown = () => [seen(".said .w"), seen(".gap"), seen(".right"), moment.ariaValueText, all(".read > span").map(({ style }) => (+style["--w"]).toFixed(1)).join(" ")];
  const states = ["2", "5", "6"].map((value) => { moment.value = value; ask("fire")(moment, "input"); return [...shown(), seen(".read .w")]; });
  assert.deepEqual(states, [["", "", "", "2 of 4 read", "0.0 1.0 0.0", "A b"], ["C C C", "", "", "1 words written", "1.0 0.0 0.0", "A b ."], ["C x C d C e", "‸ (left out: d) ", "", "2 words written", "0.0 0.5 0.5", "A b ."]]);
  moment.value = "8";
  assert.deepEqual([moment, all(".said")[1].all(".w")[2], moment].map((node, i) => { ask("fire")(node, i ? "pointerover" : "input"); return shown()[4]; }), ["0.0 0.0 0.0", "0.0 1.0 0.0", "0.0 0.0 0.0"]);
  const moving = load("opening.js", { html: OPENING, data: JSON.stringify([row]), moves: true }), [play] = moving("document").all("#play"), [place] = moving("document").all("#moment"), fire = moving("fire");
  const tick = () => moving("ticks").at(-1)(), click = () => fire(play, "click"), pause = () => fire(place, "keydown", { key: " " }), onButton = () => fire(play, "keydown", { key: " " }); // which clicks it
  const played = [() => {}, tick, pause, onButton, click, ...Array(7).fill(tick), click].map((act) => { act(); return `${place.value} ${play.textContent}`; });
  assert.deepEqual([...played, place.max, moving("ticks").at(-1).ms], ["0 Pause", "1 Pause", "1 Play", "1 Play", "1 Pause", "2 Pause", "3 Pause", "4 Pause", "5 Pause", "6 Pause", "7 Pause", "8 Play again", "0 Pause", "8", 320]);
  const cells = [], context = { fillRect(x, y) { cells.push([x, y, this.fillStyle, this.globalAlpha]); } };
  ask("FakeElement").prototype.getContext = () => context;
  ask("paintStrip")([-1, 0.5, 0, 0, -0.25], { borderTopColor: "minus", color: "plus" });
  assert.deepEqual(cells, [[0, 0, "minus", 1], [1, 0, "plus", 0.5], [2, 0, "plus", 0], [3, 0, "plus", 0], [0, 1, "minus", 0.25]]);
});

// ------------------------------------------------------------------------------------- Training
const part = (content) => gzipSync(content).toString("base64");

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

test("what is shown of a training is of the last batches, by length", () => {
  const row = (i) => `<div id="run-${i}"><p class="written"></p><p class="right"></p><p class="loss"></p></div>`;
  const html = `<button id="train"></button>${["status", "step", "losses", "shares", "source", "failed", "served", "why"].map((id) => `<p id="${id}"></p>`).join("")}<main></main>${row(0)}${row(1)}`;
  const data = { runs: [{}, {}], alphabet: "abcd", n_pairs: 3, max_words: 3, ids: { PAD: 0, BOS: 1, EOS: 2, first: 4 }, max_steps: 99, files: {}, seed: 1 };
  const ask = load("training.js", { html, data: JSON.stringify(data) }), text = (path) => ask("document").all(path).map(({ textContent }) => textContent).join(" ");
  const best = (...rows) => Uint8Array.from(rows.flat()), early = { loss: 2.5, best: best([7, 2, 0, 0], [7, 7, 7, 2]) };
  for (let n = 0; n < 5; n++) ask("history").push({ sentences: [[4], [4, 5, 6]], steps: [early, early] });
  const last = [{ loss: 1.25, best: best([4, 2, 0, 0], [4, 7, 6, 2]) }, { loss: 0.5, best: best([7, 2, 0, 0], [4, 5, 6, 2]) }];
  for (let n = 0; n < 50; n++) ask("history").push({ sentences: [[4], [4, 5, 6]], steps: last });
  ask("draw")();
  assert.deepEqual(["#step", "#source", ".written", ".right", ".loss"].map(text), ["55 steps", "abc", "adc abc", "67 % 100 %", "1.250 0.500"]);
  assert.deepEqual(ask("countRight")(), [[[1, 100], [2, 0], [3, 200 / 3]], [[1, 0], [2, 0], [3, 100]]]);
  assert.deepEqual(["4", "7", "8"].map((id) => ask("letterOf")(Number(id))), ["a", "d", "▪"]);
});

test("models take turns, each with its own state, until another request comes", async () => {
  const messages = [], count = (turn, key) => messages.filter((message) => message.turn === turn && message[key]).length, sizesOf = (files) => Object.entries(files).map(([name, text]) => [name, text.length]);
  const ask = load("worker.js", { postMessage: (message) => message.arrived || messages.push(message) }, `let onmessage; const { postMessage } = given; ${read("fake_runtime.js")}`);
  const post = (data) => ask("onmessage")({ data }), job = (run, src, limit, more) => ({ run, src, limit, job: 10 + run, ...more }), manifest = { ids: { BOS: 1, EOS: 2 }, state: [{ name: "h" }, { name: "i" }], heads: null };
  const models = [{ n: 1 }, { n: 2 }, { shape: [2, 3] }, {}].map((own) => ({ weights: "1234", encode: '{"part":"encode"}', step: JSON.stringify({ part: "step", ...own }) }));
  post({ turn: 0, jobs: [job(3, [5], 1)] });
  post({ part: { base64: part("") } });
  models.forEach((files, load) => post({ load, part: { base64: part(Object.values(files).join("")) }, sizes: sizesOf(files), manifest }));
  await ask("until")(() => messages.length === 6);
  assert.deepEqual(messages.splice(0).map(({ loaded, job }) => loaded ?? job), [0, 1, 2, 3, 13, 13]); // the text waits for its model
  post({ turn: 1, jobs: [job(0, [5, 6, 7], 9), job(2, [5, 6, 7], 2)] });
  await ask("until")(() => count(1, "finished") === 2);
  const first = messages.splice(0), [, second] = first.filter(({ weights }) => weights); // of a token after the first
  assert.deepEqual(first.map(({ job, token, finished }) => [job, token ?? finished]), [[10, 5], [12, 5], [10, 2], [10, true], [12, 6], [12, true]]);
  near([...second.weights], [1, 2].flatMap((l) => [1, 2, 3].flatMap((h) => [1, 2, 3].map((s) => Math.fround(0.1 * l + 0.01 * h + 0.001 * s))))); // no target
  post({ turn: 2, jobs: [job(2, Array(500).fill(5), 999)] });
  await ask("until")(() => count(2, "token") > 1);
  post({ turn: 3, jobs: [job(1, [8], 4, { prefix: [5, 6], taken: { 2: 9 } })] });
  await ask("until")(() => count(3, "finished"));
  assert.deepEqual(messages.map(({ turn }) => turn), messages.map(({ turn }) => turn).sort());
  assert.deepEqual(messages.filter(({ turn }) => turn === 3).map(({ token, isForced, top }) => [token, isForced, top]), [[5, true], [6, true], [9, false], [3, false], [undefined, undefined]].map((one) => [...one, undefined]));
  await post({ turn: 4, jobs: [job(1, undefined, 1)] });
  assert.equal(count(4, "failed"), 1);
});

test("a chosen token is likely and allowed", (t) => {
  const ask = load("worker.js", {}, "let onmessage; const ort = {}, postMessage = () => {};"), log3 = Math.log(3), ids = { EOS: 2 };
  const cases = [[[9, 8, 1, 2, 5, 5], 0, 0, 4], [[9, 8, 5, 2, 5, 5], 0, 0, 2], [[9, 9, 0, log3, -99], 1, 0.24, 2], [[9, 9, 0, log3, -99], 1, 0.26, 3], [[9, 9, 0, 2 * log3, -99], 2, 0.24, 2],
    [[9, 9, 0, 2 * log3, -99], 2, 0.26, 3], [[9, 9, 0, 2 * log3, -99], 1, 0.11, 3], [[9, 9, log3, 0, -99], 1, 0.74, 2], [[9, 9, log3, 0, -99], 1, 0.76, 3]];
  for (const [logits, temperature, random, token] of cases) {
    t.mock.method(Math, "random", () => random);
    assert.equal(ask("chooseToken")(Float32Array.from(logits), temperature, ids), token);
  }
  const ranked = ask("rankTokens")(Float32Array.from([9, 9, 0, log3, -1, log3, 2 * log3, -2]), ids), sum = 16 + Math.exp(-1) + Math.exp(-2); // 1 + 3 + 1 / e + 3 + 9 + 1 / e²
  assert.deepEqual(ranked.map(([token, p]) => [token, p.toFixed(6)]), [[6, 9], [3, 3], [5, 3], [2, 1], [4, Math.exp(-1)]].map(([token, p]) => [token, (p / sum).toFixed(6)]));
});

// ------------------------------------------------------------------------- Parts of the live page
const MODELS = { data: JSON.stringify({ runs: [{ manifest: { max_tokens: null } }], vocabulary: { kind: "words", words: [..."abcdefg"], pattern: "\\S+", labels: [] }, case: null }) };

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

test("sources end as in training and fit the positions", () => {
  const ask = load("models.js", MODELS), acb = [4, 6, 5], context = { continues: "context" }, prefix = (block) => ({ continues: "prefix", block });
  const cases = [[{}, null, "A c b", [...acb, 2], 18], [{}, 20, "a c b", [...acb, 2], 16], [{}, 4, "a c b", "reads at most 3 tokens"], [{}, 5, "a c b", [...acb, 2], 1],
    [{ has_source_end: false }, null, "a c b", acb, 16], [{ has_source_end: false }, null, "", [1], 12], [context, null, "a c b", acb, 5], [context, 7, "a c b", acb, 4],
    [prefix(12), null, "a c b", [1], 8, acb], [prefix(6), 9, "a c b", [1], 6, acb], [prefix(12), 6, "a c b", [1], 5, acb], [prefix(3), null, "a c b", "reads at most 2 tokens"]];
  for (const [settings, most, text, source, room, given] of cases) {
    Object.assign(ask("data"), { case: "lower", n_new: 5, continues: null, has_source_end: true, block: null }, settings);
    ask("runs")[0].manifest.max_tokens = most;
    const { src, prefix: first, limit, problem } = ask("makeJob")(0, text);
    assert.deepEqual([problem ?? src, limit, first], [source, room, given], text);
  }
  Object.assign(ask("data"), { case: null });
  assert.deepEqual(["A", "e\u0301"].map((text) => ask("normalize")(text)), ["A", "\u00e9"]);
});

test("the rows of the last queries are those on the source", () => {
  const layer = (first, [H, Q, M]) => ({ weights: Float32Array.from({ length: H * Q * M }, (_, i) => first + i), dims: [H, Q, M] });
  const rows = load("models.js", MODELS)("rowsOnSource")([layer(0, [2, 3, 4]), layer(100, [1, 2, 3])], 2, 2);
  assert.deepEqual(rows.map((row) => [...row]), [[4, 5, 16, 17, 100, 101], [8, 9, 20, 21, 103, 104]]);
});
