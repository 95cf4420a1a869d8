import { AttentionPanel } from "./attention.js";
import { MARKS_NOTE, formatRight, markPart, showDifferences } from "./differences.js";
import { addressWith, changeAddress, chooser, element, link, parseIndex, readAddress, redraw, unpack } from "./page.js";

// The state of the page is its address: #f=folder&t=test&b=bucket&e=example&seed=…&sort=…&m=run&l=layer&h=head,
// the two models that are compared, x=…&y=…, and what is listed, only=…&q=…
const { folders, live } = JSON.parse(document.getElementById("data").textContent);
const PARTS = 2000; // a weight is stored as a whole number of such parts
const MAX_LISTED = 200; // sentences listed at once
const MAX_TOLD = 3; // source tokens of a target token in the table of weights
const heading = (below) => `h${(folders.length > 1 ? 3 : 2) + below}`;

// ------------------------------------------------------------------------------------ State

/** @returns {any} without sentences, those of the folder and the runs alone */
function readState() {
  const given = readAddress();
  const f = parseIndex(given.f, folders.length);
  const folder = folders[f];
  const t = parseIndex(given.t, folder.tests.length);
  const test = folder.tests[t];
  const seeds = [...new Set(folder.runs.map((run) => run.seed))].sort((a, b) => a - b);
  const seed = seeds.includes(Number(given.seed)) ? Number(given.seed) : seeds[0];
  const runs = folder.runs.map((run, i) => ({ ...run, i })).filter((run) => run.seed === seed);
  if (!test) return { f, folder, t, seeds, seed, runs };
  const b = parseIndex(given.b, test.buckets.length, test.start);
  const pair = choosePair(test, runs, given);
  const [x, y] = pair.map((run) => run.model);
  const sort = given.sort || "gap", only = given.only || "", q = given.q || "";
  const listed = sortExamples(test, filterExamples(test, b, runs, pair, only, q), runs, pair, sort);
  const e = given.e && listed.includes(Number(given.e)) ? Number(given.e) : listed[0];
  const m = parseIndex(given.m, folder.runs.length, -1);
  return { f, folder, t, test, seeds, seed, runs, b, pair, x, y, sort, only, q, listed, e, m };
}

const isLower = (test) => Boolean(test.scores[0] && test.scores[0].lower);
const scoreOf = (test, i, run) => test.examples[i].scores[run.i][0] ?? 0;
const formatScore = (test, value) => value.toFixed(test.scores[0].digits);

// The two models of the address; without it, the best and the worst in the first bucket shown.
function choosePair(test, runs, { x = "", y = "" }) {
  const value = (run) => (test.buckets[test.start].values[run.i] ?? 0) * (isLower(test) ? -1 : 1);
  const ranked = [...runs].sort((one, other) => value(other) - value(one) || one.i - other.i);
  const named = (model) => runs.find((run) => run.model === model);
  return [named(x) || ranked[0], named(y) || ranked[ranked.length - 1]];
}

const isRight = (test, i, run) => !isLower(test) && scoreOf(test, i, run) >= 100;

function filterExamples(test, b, runs, pair, only, q) {
  const { low, high } = test.buckets[b], [one, other] = pair, word = q.toLowerCase();
  return test.examples.map((_, i) => i).filter((i) => {
    const { x, src, ref, hyps } = test.examples[i];
    if (x < low || x > high) return false;
    if (only === "better" && !(isRight(test, i, one) && !isRight(test, i, other))) return false;
    if (only === "maps" && !test.maps[i]) return false;
    return !word || [src, ref, ...runs.map((run) => hyps[run.i] ?? "")].some((text) => text.toLowerCase().includes(word));
  });
}

// What examples are sorted by, the largest first; undefined: they stay in the order of the test set.
function keyOf(test, i, runs, [one, other], sort) {
  const sign = isLower(test) ? -1 : 1, run = runs.find((run) => run.model === sort), all = runs.map((run) => scoreOf(test, i, run));
  if (sort === "gap") return Math.max(...all) - Math.min(...all);
  if (sort === "lead") return sign * (scoreOf(test, i, one) - scoreOf(test, i, other));
  return run && -sign * scoreOf(test, i, run);
}

function sortExamples(test, examples, runs, pair, sort) {
  const key = (i) => keyOf(test, i, runs, pair, sort);
  if (!examples.length || key(examples[0]) === undefined) return examples;
  return examples.sort((i, j) => key(j) - key(i) || i - j);
}

// --------------------------------------------------------------------------- Sentences

const selectionOf = ({ f, t, b, seed, x, y, sort, only, q }) => ({ f, t, b, seed, x, y, sort, only, q });

function describeList({ test, listed, b }) {
  const bucket = test.buckets[b];
  const of = listed.length === bucket.n ? `${bucket.n}` : `${listed.length} of ${bucket.n}`;
  return `${of} ${test.noun} of ${bucket.name}${listed.length > MAX_LISTED ? `; the first ${MAX_LISTED} are listed` : ""}`;
}

function listExamples({ test, listed, runs, pair, sort }) {
  return listed.slice(0, MAX_LISTED).map((i) => {
    const key = keyOf(test, i, runs, pair, sort), run = runs.find((run) => run.model === sort);
    const told = key === undefined || !test.scores.length ? "" : formatScore(test, run ? scoreOf(test, i, run) : key);
    return element("li", { role: "option", id: `option-${i}`, tabindex: "-1", "aria-selected": "false" },
      element("span", {}, test.examples[i].src || "(empty)"),
      ...(test.maps[i] ? [element("span", { class: "chip" }, "map")] : []),
      ...(told ? [element("span", { class: "note" }, told)] : []));
  });
}

const formatErrors = (counts) => Object.entries(counts).filter(([, n]) => n).map(([kind, n]) => `${n} ${kind}`).join(", ") || "none";

// The wrong words of the sentences that are listed, by model and kind.
function drawErrors({ test, listed, runs }) {
  if (!listed.length || !test.examples[listed[0]].errors) return [];
  const kinds = Object.keys(test.examples[listed[0]].errors[0]), sum = (run, kind) =>
    listed.reduce((total, i) => total + test.examples[i].errors[run.i][kind], 0);
  return [element("details", {}, element("summary", {}, `Wrong words of these ${test.noun}, by kind`),
    element("p", { class: "note" }, "Ending: another form of the word in its place. Choice: another word. Order: the word in another place."),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "wrong words by kind" }, element("table", {}, element("thead", {}, element("tr", {}, ...["model", ...kinds].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...runs.map((run) => element("tr", {}, element("th", { scope: "row" }, run.label),
        ...kinds.map((kind) => element("td", {}, String(sum(run, kind))))))))))];
}

function drawExample({ test, e, runs }) {
  const { src, ref, hyps, scores, errors } = test.examples[e];
  const written = hyps.some((hyp) => hyp !== null);
  const head = ["model", ...(written ? ["written"] : []), ...test.scores.map((score) => score.name), ...(written ? ["words right"] : []), ...(errors ? ["wrong words by kind"] : [])];
  const rows = runs.map((run) => element("tr", {},
    element("th", { scope: "row" }, run.label),
    ...(written ? [element("td", { class: "text" }, ...showDifferences(hyps[run.i] ?? "", ref).map(markPart))] : []),
    ...scores[run.i].map((value, k) => element("td", {}, value === null ? "–" : value.toFixed(test.scores[k].digits))),
    ...(written ? [element("td", {}, formatRight(hyps[run.i] ?? "", ref))] : []),
    ...(errors ? [element("td", {}, formatErrors(errors[run.i]))] : [])));
  return [
    element(heading(1), {}, "One example, side by side"),
    element("p", {}, element("strong", {}, "source "), src || "(empty)"),
    element("p", {}, element("strong", {}, "reference "), ref),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "what the models wrote" },
      element("table", {},
        element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...rows))),
    ...(written ? [element("p", { class: "note" }, MARKS_NOTE)] : []),
    ...(live ? [element("p", {}, element("a", { href: `${live}#${new URLSearchParams({ text: src })}` }, "Let the models translate it, and see every head"))] : []),
  ];
}

// Which example it is, and what the two models that are compared score on it.
function describeChoice({ test, listed, e, pair }) {
  const scores = test.scores.length
    ? `: ${test.scores[0].name} ${pair.map((run) => `${run.label} ${formatScore(test, scoreOf(test, e, run))}`).join(", ")}` : "";
  return `${listed.indexOf(e) + 1} of ${listed.length}${scores}`;
}

// ------------------------------------------------------------------------------- Attention

function tabulateWeights({ src, tgt, weights }) {
  const rows = tgt.map((word, t) => {
    const first = weights[t].map((weight, s) => [weight, s]).sort(([v], [w]) => w - v).slice(0, MAX_TOLD);
    return element("tr", {}, element("th", { scope: "row" }, word),
      ...first.map(([weight, s]) => element("td", {}, `${src[s]} ${weight.toFixed(2)}`)));
  });
  return element("details", {}, element("summary", {}, "The largest weights of each row as a table"),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "weights of attention" }, element("table", {}, element("tbody", {}, ...rows))));
}

/** @type {AttentionPanel | undefined} */
let panel;

async function drawAttention(state) {
  const { test, e, runs } = state;
  const maps = test.maps[e];
  const withMaps = maps ? runs.filter((run) => maps[run.i]) : [];
  if (!withMaps.length) {
    if (!Object.keys(test.maps).length) {
      return [element("p", { class: "note" },
        "The page has no attention maps of this test set: the first one has them, if the weights (RUN.safetensors) are there.")];
    }
    return [element("p", { class: "note" }, "No attention map of this example is in the page; ",
      link("list those with one", { ...selectionOf(state), only: "maps", q: "", e: "" }), ".")];
  }
  const run = withMaps.find((run) => run.i === state.m) || withMaps[0];
  const { src, tgt, weights, ...sizes } = maps[run.i];
  const parts = new Uint16Array(await unpack({ base64: weights })), size = parts.length / tgt.length;
  const rows = tgt.map((_, t) => Array.from(parts.subarray(t * size, (t + 1) * size), (part) => part / PARTS));
  panel ??= new AttentionPanel(heading(1));
  panel.show({ models: withMaps.map(({ i, label }) => [i, label]), run: run.i, label: run.label, sizes, src, tgt, rows,
    id: `${state.f} ${state.t} ${e}` });
  return [panel.root, tabulateWeights(panel.map.map)];
}

// ------------------------------------------------------------------- The parts of the page

// The parts of a section that stay as choices change, so that what is focused or open stays so.
function layOut({ t, folder, test, seeds, runs }, root) {
  const models = runs.map(({ model, label }) => [model, label]), names = folder.tests.map(({ name }, i) => [i, name]);
  const laidOut = JSON.stringify([t, names, seeds, models, test.axis, test.buckets.length]);
  if (root.dataset.laidOut === laidOut) return;
  root.dataset.laidOut = laidOut;
  const orders = [["gap", "largest difference first"], ["lead", "A − B, largest first"], ["test", "as in the test set"],
    ...models.map(([model, label]) => [model, `worst of ${label}`])];
  const kinds = [["", "all"], ["better", "A right, B wrong"], ["maps", "with attention maps"]]
    .filter(([kind]) => kind !== "better" || (!isLower(test) && test.scores.length));
  const search = element("input", { type: "search", "data-key": "q" });
  search.addEventListener("input", () => { history.replaceState(null, "", addressWith({ q: search.value })); render(); });
  const list = element("ul", { class: "pick", role: "listbox", "aria-label": test.noun });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) choose(Number(option.id.slice(7)));
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step) { event.preventDefault(); move(step); }
  });
  const turn = (text, step) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => move(step));
    return button;
  };
  redraw(root,
    element(heading(0), {}, `The ${test.noun} behind the figure`),
    element("nav", { "aria-label": "buckets" }, element("span", {}), ...test.buckets.map(() => element("a"))),
    element("div", { class: "controls" },
      ...(folder.tests.length > 1 ? [chooser("test", "t", names, t)] : []),
      ...(seeds.length > 1 ? [chooser("seed", "seed", seeds.map((number) => [number, `${number}`]))] : []),
      chooser("A", "x", models), chooser("B", "y", models), chooser("order", "sort", orders), chooser("show", "only", kinds, ""),
      element("label", {}, "contains", search)),
    element("p", { class: "count" }), list, element("div", { class: "errors" }),
    element("div", { class: "controls" }, turn("← previous (p)", -1), turn("next (n) →", 1),
      element("span", { class: "choice", role: "status" })),
    element("div", { class: "example" }), element("div", { class: "attention" }));
}

// Replace the children of an element if what they show has changed.
function replaceChanged(node, key, draw) {
  if (node.dataset.drawn === key) return false;
  node.dataset.drawn = key;
  node.replaceChildren(...draw());
  return true;
}

function updateControls(state, root) {
  const { test, b, pair } = state;
  const of = test.scores.length ? ` · ${test.scores[0].name} of ${pair.map((run) => run.label).join(" / ")}` : "";
  root.querySelector("nav span").textContent = `${test.axis}${of}`;
  root.querySelectorAll("nav a").forEach((a, i) => {
    const { name, values } = test.buckets[i];
    const told = test.scores.length ? pair.map((run) => (values[run.i] === null ? "–" : formatScore(test, values[run.i]))).join(" / ") : "";
    a.setAttribute("href", addressWith({ ...selectionOf(state), b: i, e: "" }));
    a.replaceChildren(element("strong", {}, name), told ? ` ${told}` : "");
    if (i === b) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
  });
  root.querySelectorAll(".controls [data-key]").forEach((input) => {
    const value = String(state[input.dataset.key]);
    if (!input.closest(".attention") && input.value !== value) input.value = value;
  });
}

function updateList(state, root) {
  const { test, listed, e } = state, list = root.querySelector(".pick"), hadFocus = list.contains(document.activeElement);
  root.querySelector(".count").textContent = describeList(state);
  replaceChanged(list, JSON.stringify({ ...selectionOf(state), b: state.b }), () => listExamples(state));
  const errors = root.querySelector(".errors"), isOpen = errors.querySelector("details")?.open;
  if (replaceChanged(errors, JSON.stringify([listed, state.seed]), () => drawErrors(state)) && isOpen) errors.querySelector("details")?.setAttribute("open", "");
  list.querySelectorAll('[aria-selected="true"]').forEach((option) => { option.setAttribute("aria-selected", "false"); option.tabIndex = -1; });
  const option = list.querySelector(`#option-${e}`);
  (option || list.firstElementChild)?.setAttribute("tabindex", "0");
  root.querySelector(".choice").textContent = e === undefined ? `No ${test.noun} of this bucket are at hand.` : describeChoice(state);
  root.querySelectorAll("button").forEach((button) => { button.disabled = listed.length < 2; });
  if (!option) return;
  option.setAttribute("aria-selected", "true");
  const below = option.offsetTop + option.offsetHeight - list.clientHeight;
  if (list.scrollTop > option.offsetTop || list.scrollTop < below) list.scrollTop = option.offsetTop - list.clientHeight / 2;
  if (hadFocus) option.focus({ preventScroll: true });
}

const choose = (e) => changeAddress({ ...selectionOf(readState()), e });

// Choose another example of the list, `step` further on.
function move(step) {
  const { listed, e } = readState();
  const place = Math.min(Math.max(listed.indexOf(e) + step, 0), listed.length - 1);
  if (listed.length) choose(listed[place]);
}

/** @type {number} the last choice that is drawn; a test waits for it */
export let drawnTurn = 0;
let turn = 0; // a choice can be made while the one before is being drawn
async function render() {
  const ownTurn = ++turn;
  const state = readState();
  document.querySelectorAll(".folder").forEach((/** @type {HTMLElement} */ article) => { article.hidden = article.id !== `f${state.f}`; });
  document.querySelectorAll("#folders a").forEach((a, i) => {
    if (i === state.f) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
  });
  for (const area of document.querySelectorAll(".chosen")) area.classList.remove("chosen");
  for (const area of document.querySelectorAll(`#f${state.f} [data-test="${state.t}"] [id$="-bucket-${state.b}"]`)) area.classList.add("chosen");
  const root = document.querySelector(`#f${state.f} .explore`);
  if (!state.test) { drawnTurn = ownTurn; return; }
  layOut(state, root);
  updateControls(state, root);
  updateList(state, root);
  const isEmpty = state.e === undefined;
  replaceChanged(root.querySelector(".example"), JSON.stringify([state.t, state.seed, state.e]), () => (isEmpty ? [] : drawExample(state)));
  const attention = isEmpty ? [] : await drawAttention(state);
  if (ownTurn !== turn) return;
  redraw(root.querySelector(".attention"), ...attention);
  drawnTurn = ownTurn;
}

// A bucket of a figure leads to its sentences.
document.querySelectorAll(".test").forEach((/** @type {HTMLElement} */ section) => {
  const f = Number(section.closest(".folder").id.slice(1)), t = Number(section.dataset.test);
  if (!folders[f].tests[t]) return;
  section.classList.add("linked");
  section.querySelectorAll('[id*="-bucket-"]').forEach((area) => area.addEventListener("click", () => {
    changeAddress({ f, t, b: Number(area.id.match(/-bucket-(\d+)/)[1]), e: "" });
    document.querySelector(`#f${f} .explore`).scrollIntoView({ block: "nearest" });
  }));
});

addEventListener("keydown", (event) => {
  const { activeElement } = document;
  const isFree = activeElement === document.body || activeElement.closest(".explore, .linked");
  if (!isFree || activeElement.matches("input, select, textarea") || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "n" || event.key === "p") move(event.key === "n" ? 1 : -1);
});

addEventListener("hashchange", render);
render();
