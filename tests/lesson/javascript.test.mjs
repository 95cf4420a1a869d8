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

// --------------------------------------------------------------------------- Essays and slides
test("tables are computed step by step", () => {
  const { multiply, transpose, softmax, smooth, computeTables, format } = load("numbers.js")("({ multiply, transpose, softmax, smooth, computeTables, format })");
  assert.deepEqual([multiply([[1, 2]], [[3, 4, 5], [6, 7, 8]]), transpose([[1, 2, 3], [4, 5, 6]])], [[[15, 18, 21]], [[1, 4], [2, 5], [3, 6]]]);
  near(softmax([1000, 1000 + Math.log(3), -Infinity]), [0.25, 0.75, 0]);
  const e = Math.exp(3); // at distances 5 and 1, divided by twice the square of 2
  near(smooth([0, 0], [[3, 4], [0, 1]], 2).flat(), [5, 1 / (1 + e), 5, 0.5, 1, e / (1 + e), 1, 0.5]);
  near(smooth([1, 0], [[3, 0], [0, 0]], 1).map((row) => row[3]), [1 / (1 + Math.exp(-3)), 1 / (1 + e)]); // softmax of q·k
  const W_q = [[1, 0, 0, 0]], W_k = [[4, 0, 0, 0]], W_v = [[6]], { scores, scaled, masked, causal, causal_means: means, smoothed } = computeTables([[1], [2]], { W_q, W_k, W_v }, 1, 1);
  assert.deepEqual([scores, scaled, masked], [[[4, 8], [8, 16]], [[2, 4], [4, 8]], [[2, -Infinity], [4, 8]]]);
  assert.deepEqual([causal[0], means[0], smoothed.map((row) => row[0])], [[1, 0], [6], [2, 6]]);
  near(means[1], [12 - 6 / (1 + Math.exp(4))]);
  assert.deepEqual([-1.5, 0.125, 2, Infinity, -Infinity].map(format), ["−1.50", "0.13", "2.00", "∞", "−∞"]);
});

test("a sentence is read, then written, and a word's lines lead to where it looks", () => {
  const digit = (x) => "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[x];
  const weights = (...all) => all.map(digit).join("");
  const one = { src: "A b.", ref: "C d e.", outputs: ["C x.", "C d e.", "C e."], vectors: ["AA==", "Bw==", "DQ==", "AQ=="], annotations: ["EBA=", "BwE=", "GRA=", "ISI="],
    weights: [weights(63, 0, 0, 0), weights(0, 32, 31, 0), weights(0, 63, 0, 0), weights(0, 0, 0, 63)], best: ["IA==", "AQ=="], steps: [0, 5, 9], label: "2 words", verdict: "so" };
  const two = { ...one, src: "Z.", label: "1 word", verdict: "else", outputs: ["C.", "C.", "C."] };
  const machine = `<section class="machine"><div class="cells"></div><p class="said"></p><p class="right"></p></section>`;
  const html = `<figure id="opening"><div class="controls" hidden><button id="play"></button><output></output><input id="length" value="0"><input id="moment"></div>
    <p class="read"></p>${machine.repeat(3)}<p class="verdict"></p></figure>`;
  const open = (given) => load("opening.js", { html, data: JSON.stringify([one, two]), ...given });
  const ask = open(), all = (path) => ask("document").all(path), [length, moment] = all("input"), [button] = all("button");
  const seen = (path) => all(path).filter((node) => !node.closest(".ahead")).map(({ textContent }) => textContent).join(" ");
  const state = () => [".read .w", ".said .w", ".right", ".verdict"].map(seen);
  const end = ["A b .", "C x . C d e . C e .", "33 % right: 1 of 3 words 100 % right: 3 of 3 words 67 % right: 2 of 3 words", "so"];
  assert.deepEqual([state(), moment.value, button.textContent, all("output")[0].textContent], [end, "8", "Play again", "2 words"]); // motion is reduced
  assert.deepEqual([ask("unpackLevels")("B+A="), ask("splitMoment")(3, 4), ask("splitMoment")(6, 4)], [[-1, 0, 1, -1], { read: 3, written: 0 }, { read: 4, written: 2 }]);
  assert.deepEqual([ask("findLooks")(), ask("findLooks")(weights(63, 3, 4)).map(({ place }) => place)], [[{ place: 0, weight: 1 }], [0, 2]]);

  const tick = () => { ask("ticks").at(-1)(); return state(); };
  ask("fire")(button, "click");
  assert.deepEqual([state(), button.textContent], [["", "", "", ""], "Pause"]);
  assert.deepEqual([tick(), tick(), tick(), tick()].map(([read, said]) => [read, said]), [["A", ""], ["A b", ""], ["A b .", ""], ["A b .", ""]]); // the end is read as well
  assert.deepEqual([tick()[1], tick()[1]], ["C C C", "C x C d C e"]);
  const lit = () => all(".read > *").map(({ style }) => Math.round(10 * style["--w"]));
  assert.deepEqual(lit(), [0, 5, 5]);
  ask("fire")(all(".said .w")[3], "pointerover"); // a running film shows its own word
  assert.deepEqual(lit(), [0, 5, 5]);
  assert.deepEqual([tick().slice(1), tick(), ask("ticks").at(-1), button.textContent], [["C x . C d e C e .", end[2].replace(/ 100.*words 67/, " 67"), ""], end, undefined, "Play again"]);
  ask("fire")(all(".said .w")[3], "pointerover");
  assert.deepEqual(lit(), [10, 0, 0]);
  ask("fire")(all("figure")[0], "pointerleave");
  assert.deepEqual(lit(), [0, 0, 0]);

  ask("fire")(moment, "keydown", { key: " " });
  ask("fire")(moment, "keydown", { key: " " });
  assert.deepEqual([button.textContent, state()[0]], ["Play", ""]);
  moment.value = "5";
  ask("fire")(moment, "input");
  assert.deepEqual([state()[1], moment.ariaValueText], ["C C C", "1 words written"]);
  length.value = "1";
  ask("fire")(length, "input");
  assert.deepEqual([state()[0], state()[3], all("output")[0].textContent], ["Z .", "else", "1 word"]);

  const moving = open({ moves: true }), read = () => moving("document").all(".read .w").filter((node) => !node.closest(".ahead")).length;
  assert.equal(read(), 0);
  moving("ticks")[0]();
  assert.deepEqual([read(), ask("ticks").filter(Boolean).length], [1, 0]);
});

test("swaps move the ball, hide it, and mark the tested number of moves up to theirs", () => {
  const row = (tag, ...cells) => `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join("")}</tr>`;
  const buttons = ["swap-1-2", "swap-1-3", "swap-2-3", "many", "show", "again"].map((id) => `<button id="${id}"></button>`).join("");
  const ask = load("cups.js", { html: `<div id="game" hidden><ol id="cups"><li></li><li></li><li></li></ol>${buttons}<p id="told"></p></div>
    <table id="shares"><thead>${row("th", "model", 2, 4, 16)}</thead><tbody>${row("td", "A", 90, 70, 30)}</tbody></table>` });
  assert.deepEqual([[], [[1, 2]], [[1, 2], [1, 3]], [[1, 2], [2, 3], [1, 3]]].map((moves) => ask("follow")(moves, 1)), [1, 2, 2, 1]);
  assert.deepEqual([1, 2, 3, 4, 15, 99].map((n) => ask("findTested")([2, 4, 16], n)), [-1, 0, 0, 1, 1, 2]);
  const draws = [0, 0.34, 0.99];
  assert.deepEqual(ask("drawSwaps")(3, () => draws.shift()), [[1, 2], [1, 3], [2, 3]]);
  const look = () => ["#cups li", ".now", "#told"].map((path) => ask("document").all(path).map(({ textContent }) => textContent).join(" "));
  const press = (id) => { ask("fire")(ask("document").all(`#${id}`)[0], "click"); return look(); };
  assert.deepEqual(look(), ["● ∩ ∩", "", "0 moves. The ball is under cup 1."]);
  assert.equal(press("swap-1-3")[0], "∩ ∩ ∩");
  assert.deepEqual(press("swap-2-3"), ["∩ ∩ ∩", "2 90", "2 moves. The last swapped cups 2 and 3. Under which cup is the ball? In the table: 2 moves."]);
  assert.equal(press("show")[0], "∩ ● ∩");
  assert.deepEqual(press("many").slice(0, 2), ["∩ ∩ ∩", "4 70"]);
  assert.deepEqual(press("again").slice(0, 2), ["● ∩ ∩", ""]);
  assert.equal(ask("document").all("#game")[0].hidden, false);
});

const presentable = (node) => node.all("main > :not(.findings), .findings > *").filter(({ classList }) => !classList.contains("offstage"));

test("a page is presented screen by screen, without those that are empty", () => {
  const html = `<main><h1>one</h1><p>more</p><h2>two</h2><div><h2 id="in">three</h2></div><div class="findings"><p>still</p><div class="block same">none</div><div class="block">four</div></div>
    <figure>five</figure><p><a href="x.html#y">x</a><a href="x.html?present">y</a><a href="https://x.html">z</a><a href="#in">in</a><input type="range"><textarea></textarea></p></main>`;
  const ask = load("present.js", { html, search: "?present", hash: "#in" }, "FakeElement.prototype.checkVisibility = function () { return !this.matches('.same'); };");
  const at = () => [presentable(ask("document")).map(({ textContent }) => textContent.slice(0, 5)).join(" "), ask("document").all(".turner span")[0].textContent];
  assert.deepEqual(at(), ["three still", "3 of 5"]);
  const press = (key, extra = {}, on = "body") => { ask("fire")(ask("document").all(on)[0], "keydown", { key, ...extra }); return at()[1][0]; };
  assert.deepEqual([["ArrowLeft"], ["PageUp"], ["PageUp"], ["PageDown"], ["ArrowRight"], ["ArrowUp"], ["ArrowRight", { altKey: true }], ["ArrowRight", { ctrlKey: true }], ["ArrowRight", { defaultPrevented: true }],
    ["ArrowRight", {}, "textarea"], ["PageDown", {}, "textarea"], ["ArrowLeft", {}, "input"], ["ArrowRight"], ["ArrowRight"], ["ArrowRight"]].map((one) => press(...one)).join(""), "211233333343455");
  const [back, on] = ask("document").all("button");
  assert.deepEqual([back, back, on].map((button) => { ask("fire")(button, "click"); return at(); }), [["four", "4 of 5"], ["three still", "3 of 5"], ["four", "4 of 5"]]);
  const links = ask("document").all("main a");
  for (const link of links) ask("fire")(link, "click");
  assert.deepEqual(links.map((link) => link.getAttribute("href")), ["x.html?present#y", "x.html?present", "https://x.html", "#in"]);
  press("PageUp"); press("PageUp"); press("PageUp");
  assert.equal(at()[0], "one more");
  assert.equal(load("present.js", { html })("document").all(".turner").length, 0);
});

test("a screen of the plan has its question, then its answer, then what is there at one turn alone", () => {
  const steps = [["a.html", "z", "A?"], ["page.html", "q", "Q?", "p"], ["page.html", "r", "R?", "", 2], ["b.html", "z", "B?"]];
  const html = `<main><h2>first</h2><h2 id="q">q</h2><p><input type="radio" id="r"></p><i data-at="1">1</i><i data-at="2">2</i><u data-guest="g"></u><h2>last</h2><p id="g">g</p></main>
    <p id="steps">${steps.map(([page, id, asked, answer = "", n = 1], i) => `<a href="${page}?present#${id}" title="${asked}" data-answer="${answer}" data-screens="${n}">${i}</a>`).join("")}</p>`;
  const ask = load("present.js", { html, search: "?present", hash: "#q" }, "let clicks = 0; Object.assign(FakeElement.prototype, { checkVisibility: () => true, click() { clicks += 1; } });");
  const [go] = ask("document").all(".turner button").slice(-1);
  const see = () => [presentable(ask("document")).filter(({ classList }) => !classList.contains("untimely")).map(({ localName, textContent }) => localName + textContent).join(" "),
    ...[".turner p", ".turner span"].map((path) => ask("document").all(path)[0].textContent), ...ask("document").all(".turner a").slice(0, 1).map((a) => [a.getAttribute("href") ?? a.href, a.classList.contains("due")].join(" "))];
  const seen = [see(), ...[{}, {}, { shiftKey: true }].map((extra) => { ask("fire")(go, "click", extra); return see(); })];
  assert.deepEqual(seen, [["h2q ug", "Q?", "2 of 5", "page.html?present#r true"], ["h2q p i1 ug", "R?", "3 of 5", "b.html?present#z false"],
    ["h2q p i2 ug", "R?", "4 of 5", "b.html?present#z true"], ["h2last", "R?", "5 of 5", "b.html?present#z true"]]);
  assert.equal(ask("clicks"), 1);

  const [back] = ask("document").all(".turner button");
  const press = (button) => { ask("fire")(button, "click"); return [see()[2][0], ask("location.hash"), ask("location.gone")].join(" "); };
  assert.deepEqual([go, back, back, back, back].map(press), ["5 #r b.html?present#z", "4 #r b.html?present#z", "3 #r b.html?present#z", "2 #q! ", "2 #q! a.html?present#z!"]);
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
test("an example is chosen by keys, by the list and by a figure", async () => {
  const runs = ["a", "b"].flatMap((model) => [1, 2].map((seed) => ({ model, label: model.toUpperCase(), seed })));
  const examples = [3, 5, 4, 6, 5].map((x, i) => ({ x, src: `S${i}`, ref: "r", hyps: ["r", "r", "q", "r"], scores: [[10 * i], [1], [40], [2]] }));
  const weights = part(new Uint8Array(Uint16Array.from([500, 1500, 1000, 0, 1800, 200, 2000, 0]).buffer)); // target, layer, head, source
  const maps = { 3: [null, null, { src: ["s", "t"], tgt: ["x", "y"], weights, layers: 1, heads: 2, aligned_layers: [0] }, null] };
  const scores = [{ key: "bleu", name: "BLEU", lower: false, digits: 1 }], buckets = [[3, 4], [5, 9]].map(([low, high], i) => ({ low, high, n: i + 2, name: `${low}–${high}`, values: [7, 0, 8.5, i ? 3 : null] }));
  const data = JSON.stringify({ live: "live.html", folders: [{ name: "none", runs: [], tests: [] }, { name: "some", runs, tests: [{ name: "length", noun: "sentences", axis: "length", examples, maps, buckets, start: 1, scores }] }] });
  const area = (i) => `<g id="f1-score-length-bucket-${i}"></g>`;
  const html = `<p id="folders"><a></a><a></a></p><article class="folder" id="f0"></article><article class="folder" id="f1"><section class="test" data-test="0">${area(0)}${area(1)}</section><section class="explore"></section></article>`;
  const ask = load("report.js", { html, data, hash: "#f=1" }), all = (selector) => ask("document").all(selector), text = (selector) => all(selector).map(({ textContent }) => textContent);
  const settle = async () => { ask("fire(document, 'hashchange')"); await ask("until")(() => ask("turn === drawnTurn")); };
  const seen = () => [text("[aria-selected=true]").join(), text(".choice")[0], text(".pick li").join(" "), all(".chosen").map(({ id }) => id.at(-1)).join()];
  const act = async (node, type, extra) => { ask("fire")(node, type, extra); await settle(); return seen(); };
  const press = (key, on = all("body")[0], extra = {}) => { on.focus(); return act(on, "keydown", { key, ...extra }); };
  await settle();
  const start = seen();
  assert.deepEqual(start, ["S130.0", "1 of 3: BLEU B 40.0, A 10.0", "S130.0 S3map10.0 S40.0", "1"]);
  assert.deepEqual([all(".folder").map(({ hidden }) => hidden), all("#folders a").map(({ attributes }) => attributes["aria-current"]), text("nav a"), text(".count")],
    [[true, false], [undefined, "true"], ["3–4 8.5 / 7.0", "5–9 8.5 / 7.0"], ["3 sentences of 5–9"]]);
  const list = all(".pick")[0], search = all("[type=search]")[0];
  const order = [["n"], ["n"], ["n"], ["p"], ["p"], ["p"], ["n", search], ["n", all("body")[0], { ctrlKey: true }], ["x"], ["End", list], ["ArrowUp", list], ["ArrowDown", list], ["Home", list], ["ArrowLeft", list]], places = [];
  for (const one of order) places.push((await press(...one))[1][0]);
  assert.equal(places.join(""), "23321111132311");
  assert.equal((await act(all("#option-4")[0].children[0], "click"))[0], "S40.0");
  assert.deepEqual(await act(all("g")[0], "click"), ["S040.0", "1 of 2: BLEU B 40.0, A 0.0", "S040.0 S220.0", "0"]);
  Object.assign(search, { value: "s2" });
  assert.deepEqual(await act(search, "input"), ["S220.0", "1 of 1: BLEU B 40.0, A 20.0", "S220.0", "0"]);
  assert.deepEqual([text(".count")[0], all("button").map(({ disabled }) => disabled), text(".note").at(-1).slice(0, 27)], ["1 of 2 sentences of 3–4", [true, true], "No attention map of this ex"]);
  Object.assign(search, { value: "no" });
  assert.deepEqual((await act(search, "input")).slice(0, 3), ["", "No sentences of this bucket are at hand.", ""]);
  ask("location").hash = "#f=1&e=3&b=1&l=0&h=1";
  await settle();
  assert.deepEqual(all(".cell").map(({ attributes: { x, y, "fill-opacity": weight } }) => [+x, +y, +weight]), [[0, 0, 0.5], [36, 0, 0.5], [0, 18, 1]]);
  assert.deepEqual(all("details tr").map(({ children }) => children.map(({ textContent }) => textContent)), [["x", "s 0.50", "the target 0.50", "t 0.00"], ["y", "s 1.00", "t 0.00", "the target 0.00"]]);
  assert.deepEqual([all(".example a")[0].href, all(".example tbody tr").map(({ children }) => children.map(({ textContent }) => textContent))], ["live.html#text=S3", [["A", "r", "30.0", "1 of 1"], ["B", "q", "40.0", "0 of 1"]]]);
  const shown = (await act(all("[data-key=seed]")[0], "change", Object.assign(all("[data-key=seed]")[0], { value: "2" }) && {})).slice(1, 3);
  assert.deepEqual(shown, ["2 of 3: BLEU B 2.0, A 1.0", "S11.0 S3map1.0 S41.0"]);
  ask("location").hash = "#f=0";
  await settle();
  assert.deepEqual(all(".folder").map(({ hidden }) => hidden), [false, true]);
});

// ---------------------------------------------------------------------------------- The live page
// Pages that test_javascript.py has drawn, with four models of fake_runtime.js that copy their source:
// Vector stops after one token, Pair after two; Attends (2 layers, 3 heads) and Late (3, 2) look back.
const PAGES = process.env.PAGES ? JSON.parse(readFileSync(process.env.PAGES, "utf8")) : {};
const live = (name, check) => test(name, { skip: !process.env.PAGES }, check);
const ENDS = ["b‸ (left out: d f a g) ", "b d‸ (left out: f a g) "];

async function openLive(name = "words") {
  const ask = load("live.js", PAGES[name]), [document, query, fire, until] = ["document", "query", "fire", "until"].map(ask);
  const texts = (selector) => document.all(selector).map(({ textContent }) => textContent);
  const settle = async () => { await until(() => ask("document.body.dataset.done === String(turn)")); await new Promise((go) => setTimeout(go, 5)); };
  const go = async (changes) => { ask("changeAddress")(changes); fire(document, "hashchange"); await settle(); };
  const click = async (node) => { fire(node, "click"); await go({}); };
  for (const id of PAGES[name].parts) await ask("usePart")(id);
  await settle();
  return { ask, document, query, fire, until, texts, settle, go, click, word: (run, i) => query(`#run-${run} [data-w="${i}"]`) };
}

live("a guess is compared with the first bucket below one half", async () => {
  const cases = [["words", 0, ["2–4 on, as you guessed", "5–9 on, later than you guessed"]], ["words", 1, ["2–4 on, earlier than you guessed", "5–9 on, as you guessed"]], ["half", 1, ["2–4 on, earlier than you guessed"]]];
  for (const [name, guess, verdicts] of cases) {
    const { ask, document, query, fire, until } = await openLive(name), last = name === "half" ? [25, 50] : [20, 40];
    query("#exercise").all("input")[guess].checked = true;
    fire(query("#exercise"), "submit");
    await until(() => ask("document.body.dataset.seen"));
    const rest = Array(3 - verdicts.length).fill("half or more at every length"), said = [...verdicts.map((verdict) => `fewer than half from ${verdict}`), ...rest];
    assert.equal(query("#answer").textContent, `You guessed ${["2–4", "5–9"][guess]}. ${["Vector", "Pair", "Attends"].map((label, i) => `${label}: ${said[i]}`).join("; ")}.`);
    assert.equal(decodeURIComponent(document.all("#seen a")[0].href).split("utf-8,")[1], `"model","2–4","5–9"\n"Vector",40,${last[0]}\n"Pair",60,${last[1]}\n"Attends",80,100`);
    const [area, ...bars] = document.all("#seen rect").map(({ attributes }) => attributes);
    near(bars.slice(0, 6).map(({ height }) => height / area.height), [0.4, 0.6, 0.8, last[0] / 100, last[1] / 100, 1]);
    assert.deepEqual([area.x, document.all("#seen line")[1].attributes.y1], [String(48 + 356 * guess), String(22 + area.height / 2)]);
  }
});

live("the page shows the sentence of its address", async () => {
  const { ask, document, query, fire, texts, settle, go, click } = await openLive();
  const seen = () => [...["#text", "#length"].map((id) => String(query(id).value)), query("#words").textContent, Boolean(query("#beyond").textContent), query("#another").disabled, texts(".score .right").map(([n]) => n).join(""), ask("strip.points.size")];
  const long = ["b d f a g", "2", "5 words", true, true, "1255"], three = ["c d e", "1", "3 words", false, false, "1233"], other = ["b c d", "1", "3 words", false, false, "1122"];
  assert.deepEqual([seen(), query("#length").max, query("#limit").style["--at"]], [[...long, 4], 2, "0.5"]);
  const steps = [[{ w: 4, i: "0" }, three, 8], [{ w: 2 }, ["a b", "0", "2 words", false, true, "1111"], 12], [{ w: 3 }, three, 12], [{ i: "1" }, other, 16], [{ i: "3" }, other, 16]];
  for (const [changes, expected, dots] of steps) { await go(changes); assert.deepEqual(seen(), [...expected, dots]); }
  near(document.all(".fill").map(({ style }) => Number(style.width.slice(0, 5))), [33.33, 33.33, 66.66, 66.66]);
  assert.equal(query("#status").textContent, "Right: Vector 1 of 3, Pair 1 of 3, Attends 2 of 3, Late 2 of 3.");
  await click(query("#another"));
  assert.deepEqual(seen(), [...three, 16]);
  query("#length").value = "2";
  fire(query("#length"), "input");
  await settle();
  assert.deepEqual(seen(), [...long, 16]);
  await go({ text: "a b" }); // from a report: an example
  assert.equal(query("#reference").textContent, "reference a g");
  await go({ text: "c d e f" });
  assert.deepEqual([seen(), query("#length").attributes["aria-valuetext"]], [["c d e f", "1", "4 words", true, true, "––––", 16], "4 words, your own"]);
  query("#text").value = "half";
  await go({ mute: "2-0-0" });
  assert.equal(query("#text").value, "half");
});

live("heads are muted, and words chosen in place of a model's own", async () => {
  const { ask, document, query, fire, texts, go, click, word } = await openLive(), address = () => ask("readAddress()");
  const seen = () => [texts(".changed"), texts("#run-2 .written")[0], query("#unmute").hidden, ask("strip.points.size")];
  await go({ mute: "2-0-2,2-2-0,2-0-3,0-0-0,3-2-1" });
  assert.deepEqual(seen(), [["", "", "muted: to the source, layer 1, head 3", "muted: to the source, layer 3, head 2"], ENDS[1], false, 4]);
  await click(query("#unmute"));
  assert.deepEqual(seen(), [["", "", "", ""], "b d f a g", true, 4]);
  await go({ m: "2" });
  await click(document.all("#attention button").find(({ textContent }) => textContent === "choose a head to mute"));
  assert.deepEqual([address().l, address().h, query("[data-key=mute]").checked], ["1", "0", false]);
  await go({ m: "2", l: "1", h: "1" });
  for (const [mute, isMuted] of [["2-1-1", true], ["", false]]) {
    fire(query("[data-key=mute]"), "change");
    await go({});
    assert.deepEqual([address().mute, query("[data-key=mute]").checked], [mute, isMuted]);
  }
  await click(word(2, 1));
  assert.deepEqual([texts("#run-2 .top button"), texts('[aria-pressed="true"]')], [["d 100 %", "<eos> 0.0 %", "⁇ 0.0 %", "a 0.0 %", "b 0.0 %"], ["d 100 %"]]);
  await go({ take: "0-0-6,2-0-5,2-1-6,2-3-4,1-0-99" });
  assert.deepEqual(texts(".changed"), ["chosen: c", "", "chosen: b; chosen: c; chosen: a", ""]);
  await click(word(2, 1));
  await click(document.all("#run-2 .top button")[3]);
  assert.deepEqual([address().take, query("#run-2").dataset.tokens.slice(0, 7)], ["0-0-6,1-0-99,2-0-5,2-1-4", "5 4 3 3"]);
  assert.match(document.all("#run-2 .top a")[0].href, /take=0-0-6%2C1-0-99$/);
  await go({ w: "2" });
  assert.deepEqual([texts(".top button"), texts(".changed").join("")], [[], ""]); // of another text
});

live("words light up, and are walked", async () => {
  const { document, query, fire, texts, go, word } = await openLive();
  await go({ text: "b d b" });
  const bars = () => document.all(".strips").map(({ children }) => children.map(({ style }) => Number(style.opacity).toFixed(4)));
  const lit = () => document.all(".lit").map((node) => `${node.closest(".run").id.at(-1)}:${node.dataset.w}`).join(" ");
  fire(word(2, 2), "pointerover"); // the mean over the heads of layer 2; weights of the other model are above 1
  assert.deepEqual([lit(), bars()], ["0:0 1:0 2:2 3:2", [["0.2210", "1.0000"], ["0.2220", "1.0000"], ["0.2230", "1.0000"]]]);
  fire(word(1, 1), "pointerover");
  assert.equal(lit(), "1:1 2:1 3:1");
  await go({ l: "0", h: "1" });
  fire(word(1, 1), "pointerover");
  assert.deepEqual(bars().map(([bar]) => bar), ["0.1210", "0.1220", "0.1230"]);
  fire(query("#outputs"), "pointerleave");
  assert.deepEqual([lit(), bars().flat().join("")], ["", "0.0000".repeat(6)]);
  query("#run-2 .w").focus();
  const walked = ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "x"].map((key) => { fire(document.activeElement, "keydown", { key }); return document.activeElement.dataset.w; });
  fire(document.activeElement, "keydown", { key: "Enter" });
  assert.deepEqual([walked.join(""), document.all('#run-2 [tabindex="0"]').length, texts("#run-2 .top button")[0]], ["12211", 1, "d 100 %"]);
});

live("writing can be stopped, and goes on anew", async () => {
  const { ask, query, fire, texts, settle, go, until } = await openLive(), tokens = () => ask("written.map(({ tokens }) => tokens.length)");
  assert.equal(query("#stop").hidden, true);
  ask("move")({ text: "b d f a g b d f a g" });
  await until(() => tokens().some((n) => n > 2));
  assert.deepEqual([query("#stop").hidden, query("#stop").textContent.replace(/\d+/, "n")], [false, "stop (n tokens)"]);
  fire(query("#stop"), "click");
  await settle();
  const stopped = tokens(), n = stopped.reduce((a, b) => a + b);
  await new Promise((go) => setTimeout(go, 20));
  assert.deepEqual([tokens(), query("#status").textContent, query("#stop").hidden, n < 23], [stopped, `Stopped after ${n} tokens by all models.`, true, true]);
  await go({ text: "b d f" });
  assert.equal(texts("#run-3 .written")[0], "b d f");
});

live("a page that cannot run says why, in place of its bars", async () => {
  const whole = PAGES.words, parted = JSON.parse(JSON.stringify(whole).replace('\\"files\\":{}', '\\"files\\":{\\"worker\\":\\"worker.bin\\"}'));
  for (const [protocol, page, isServed] of [["file:", parted, false], ["https:", whole, true]]) {
    const ask = load("live.js", { ...page, protocol }), query = ask("query");
    if (isServed) ask("setFailed")("no WebAssembly"); else await ask("globalThis.arrive")("worker");
    assert.deepEqual(["#failed", "#served"].map((id) => query(id).hidden), [false, isServed]);
    assert.match(query("#why").textContent, isServed ? /no WebAssembly/ : /opened from a disk/);
    assert.ok(query("main").classList.contains("failed"));
  }
});

live("heads have the names that records give them", async () => {
  const { ask, texts, go } = await openLive();
  ask("runs[2].head_names = [['', 'noun → verb, 96 %', '']]");
  await go({ m: "2", l: "0", h: "1" });
  assert.deepEqual(texts("[data-key=h] option"), ["head 1", "head 2: noun → verb, 96 %", "head 3"]);
});

live("what is typed is read, with hints", async () => {
  const { ask, query, fire, until, texts, settle } = await openLive("stops"), known = "The models know 7 words, source and target together", unknown = "Unknown to them";
  const type = (text) => { query("#text").value = text; fire(query("#text"), "input"); return texts("#count, #hints li").map((hint) => hint.split(/[:.]/)[0]); };
  assert.deepEqual(["A b.", "c d. e", "A q, zz b. ", "A"].map(type), [["3 tokens", known, unknown], ["4 tokens", known, unknown, "More than one sentence", "No full stop at the end", "It begins with a small letter"],
    ["6 tokens", known, "4 are unknown to them"], ["1 token", known, "No full stop at the end"]]);
  const isEdited = () => query("#ask").classList.contains("edited");
  const enter = async (extra) => { fire(query("#text"), "keydown", { key: "Enter", ...extra }); await settle(); return [query("#source").textContent, isEdited()]; };
  assert.deepEqual([await enter({ shiftKey: true }), await enter({}), type("b d f").length, isEdited(), await enter({})], [["c d e.", true], ["a", false], 4, true, ["b d f", false]]);
  query("#prefix-run").value = "1";
  fire(query("#read"), "click");
  await until(() => ask("document.body.dataset.prefixed"));
  assert.deepEqual(texts("#prefixes th, #prefixes td"), ["1", "b", "b", "2", "d", "b d", "3", "f", "b d"]);
  query("#text").value = "";
  fire(query("#ask"), "submit");
  await settle();
  assert.deepEqual([texts("#prefixes"), query("#status").textContent, ask("readAddress()")], [[""], "Type a sentence first.", { text: "" }]);
});

live("the page plays word by word", async () => {
  const { ask, query, fire, texts, word } = await openLive(), plays = ask("ticks"), all = [];
  const look = async () => { await new Promise((go) => setTimeout(go, 5)); all.push([texts(".written"), texts(".score .right").map(([n]) => n).join(""), Number(query(".strips i").style.opacity).toFixed(3)]); };
  ask("play")();
  await look();
  for (let i = 0; i < 6; i += 1) { plays.at(-1)(); await look(); }
  assert.deepEqual(all.slice(0, 3), [[["", "", "", ""], "0000", "0.000"], [[ENDS[0], "b", "b", "b"], "1111", "0.221"], [[...ENDS, "b d", "b d"], "1222", "0.221"]]);
  assert.deepEqual(all.slice(5), [[[...ENDS, "b d f a g", "b d f a g"], "1255", "0.221"], [[...ENDS, "b d f a g", "b d f a g"], "1255", "0.000"]]);
  assert.deepEqual([plays.at(-1), query("#status").textContent], [undefined, "Right: Vector 1 of 5, Pair 2 of 5, Attends 5 of 5, Late 5 of 5."]);
  fire(word(3, 4), "pointerover"); // words can be lit again
  assert.deepEqual(texts(".lit"), ["g", "g"]);
});

live("a head over the whole text is drawn, and sentences are built", async () => {
  const { ask, query, fire, texts, settle, go } = await openLive();
  await go({ w: "2", m: "3", l: "a1", h: "1" });
  const { src, tgt, weights } = ask("panel.map.map"), text = ["a", "b", "<eos>", "<bos>", "a"];
  assert.deepEqual([src, tgt, weights.map((row) => row.length), weights[1][2].toFixed(3)], [text, text, Array(5).fill(5), (10 * 5 + 2 + 0.2 + 0.02 + 0.003).toFixed(3)]);
  query("#clause").value = "3.1";
  const build = async (value) => { fire(query("#build"), "submit", { submitter: { value } }); await settle(); return [ask("readAddress().m"), ask("readAddress().build"), ...texts("#words, #built, #reference")]; };
  const one = ["3", "3.1", "3 words", "reference b g d", "b c d"];
  assert.deepEqual([await build(""), await build("and"), await build("shorter")], [one, ["3", "3.1,and.3.1", "7 words", "reference b g d, und b g d", "b c d, and b c d"], one]);
  const isLoaded = () => query("#loading span").textContent.includes("4 of 4"); // unpacking takes its time
  for (let i = 0; i < 500 && !isLoaded(); i += 1) await new Promise((resume) => setTimeout(resume, 10));
  assert.deepEqual([(await build("shorter")).slice(0, 3), query("#built").textContent, query("#loading span").textContent], [["3", undefined, "5 words"], "Nothing yet.", "0.0 of 0.0 MB, 4 of 4 models are ready"]);
  assert.deepEqual(texts(".sum"), [0, 1, 2, 3].map((i) => createHash("sha256").update(Uint8Array.of(1, 4, 2, 5, 3, i)).digest("hex")));
});
