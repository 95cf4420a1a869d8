import { AttentionPanel } from "./attention.js";
import { MARKS_NOTE, countRight, markPart, showDifferences } from "./differences.js";
import { changeAddress, chooser, element, link, parseIndex, readAddress, redraw, unpack } from "./page.js";

// The state of the page is its address: #f=folder&t=test&b=bucket&e=example&seed=…&sort=…&m=run&l=layer&h=head
const { folders } = JSON.parse(document.getElementById("data").textContent);
const PARTS = 2000; // a weight is stored as a whole number of such parts
const MAX_LISTED = 200; // sentences listed at once
const heading = (below) => `h${(folders.length > 1 ? 3 : 2) + below}`;

// ------------------------------------------------------------------------------------ State

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
  const b = parseIndex(given.b, test.buckets.length);
  const sort = given.sort || "gap";
  const listed = sortExamples(test, test.buckets[b], runs, sort);
  const e = given.e && listed.includes(Number(given.e)) ? Number(given.e) : listed[0];
  const m = parseIndex(given.m, folder.runs.length, -1);
  return { f, folder, t, test, seeds, seed, runs, b, sort, listed, e, m, l: given.l, h: given.h };
}

// Sorted by the first score: by its range over the models, or from the worst of one model.
function sortExamples(test, bucket, runs, sort) {
  const inBucket = test.examples.map((_, i) => i)
    .filter((i) => test.examples[i].x >= bucket.low && test.examples[i].x <= bucket.high);
  const sign = test.scores[0] && test.scores[0].lower ? -1 : 1;
  const score = (i, run) => test.examples[i].scores[run.i][0] ?? 0;
  const run = runs.find((run) => run.model === sort);
  const gap = (i) => {
    const all = runs.map((run) => score(i, run));
    return Math.max(...all) - Math.min(...all);
  };
  if (sort === "gap") return inBucket.sort((i, j) => gap(j) - gap(i) || i - j);
  if (run) return inBucket.sort((i, j) => sign * (score(i, run) - score(j, run)) || i - j);
  return inBucket;
}

// --------------------------------------------------------------------------- Sentences

function listExamples(state) {
  const { test, listed, e, b } = state;
  const firstListed = listed.slice(0, MAX_LISTED);
  const bucket = test.buckets[b];
  const of = listed.length === bucket.n ? `${bucket.n}` : `${listed.length} of ${bucket.n}`;
  const more = firstListed.length < listed.length ? `; the first ${MAX_LISTED} are listed` : "";
  return [
    element("p", { class: "count" }, `${of} ${test.noun} of ${bucket.name}${more}`),
    element("ol", { class: "pick", "aria-label": test.noun }, ...firstListed.map((i) => element("li", {},
      link(test.examples[i].src || "(empty)", { ...selectionOf(state), e: i }, i === e)))),
  ];
}

const selectionOf = ({ f, t, b, seed, sort }) => ({ f, t, b, seed, sort });

function formatRight(hyp, ref) {
  const { right, words } = countRight(hyp, ref);
  return `${right} of ${words}`;
}

function drawExample(state) {
  const { test, e, runs } = state;
  const { src, ref, hyps, scores } = test.examples[e];
  const written = hyps.some((hyp) => hyp !== null);
  const head = ["model", ...(written ? ["written"] : []), ...test.scores.map((score) => score.name), ...(written ? ["words right"] : [])];
  const rows = runs.map((run) => element("tr", {},
    element("th", { scope: "row" }, run.label),
    ...(written ? [element("td", { class: "text" }, ...showDifferences(hyps[run.i] ?? "", ref).map(markPart))] : []),
    ...scores[run.i].map((value, k) => element("td", {}, value === null ? "–" : value.toFixed(test.scores[k].digits))),
    ...(written ? [element("td", {}, formatRight(hyps[run.i] ?? "", ref))] : [])));
  return [
    element(heading(1), {}, "One example, side by side"),
    element("p", {}, element("strong", {}, "source "), src || "(empty)"),
    element("p", {}, element("strong", {}, "reference "), ref),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "what the models wrote" },
      element("table", {},
        element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, ...rows))),
    ...(written ? [element("p", { class: "note" }, MARKS_NOTE)] : []),
  ];
}

// ------------------------------------------------------------------------------- Attention

/** @type {AttentionPanel | undefined} */
let panel;

async function drawAttention(state) {
  const { test, e, runs } = state;
  if (!test.maps) return [];
  const maps = test.maps[e];
  const withMaps = maps ? runs.filter((run) => maps[run.i]) : [];
  if (!withMaps.length) {
    const others = state.listed.filter((i) => test.maps[i]);
    if (!others.length) {
      const some = Object.keys(test.maps).length;
      return [element("p", { class: "note" }, some ? "No attention map of this bucket is in the page."
        : "The page has no attention maps of this test set: the first one has them, if the weights (RUN.safetensors) are there.")];
    }
    return [element("p", { class: "note" }, "No attention map of this example is in the page; these have one:"),
      element("ul", { class: "others" }, ...others.map((i) => element("li", {},
        link(test.examples[i].src, { ...selectionOf(state), e: i }))))];
  }
  const run = withMaps.find((run) => run.i === state.m) || withMaps[0];
  const { src, tgt, weights, ...sizes } = maps[run.i];
  const parts = new Uint16Array(await unpack(weights)), size = parts.length / tgt.length;
  const rows = tgt.map((_, t) => Array.from(parts.subarray(t * size, (t + 1) * size), (part) => part / PARTS));
  panel ??= new AttentionPanel(heading(1));
  return [panel.show({ models: withMaps.map(({ i, label }) => [i, label]), run: run.i, label: run.label, sizes, src, tgt, rows, id: `${state.f} ${state.t} ${e}` })];
}

// -------------------------------------------------------------------------------- The page

function drawControls(state) {
  const { f, folder, t, test, b, seeds, seed, sort, runs } = state;
  const others = { seed, sort };
  const orders = [["gap", "largest difference first"], ["test", "as in the test set"],
    ...runs.map((run) => [run.model, `worst of ${run.label}`])];
  return [
    element(heading(0), {}, `The ${test.noun} behind the figure`),
    element("nav", { "aria-label": "buckets" }, test.axis,
      ...test.buckets.map((bucket, i) => link(bucket.name, { f, t, b: i, ...others, e: "" }, i === b))),
    element("div", { class: "controls" },
      ...(folder.tests.length > 1 ? [chooser("test", "t", folder.tests.map(({ name }, i) => [i, name]), t)] : []),
      ...(seeds.length > 1 ? [chooser("seed", "seed", seeds.map((number) => [number, `${number}`]), seed)] : []),
      chooser("order", "sort", orders, orders.some(([key]) => key === sort) ? sort : "test")),
  ];
}

function highlightBucket(state) {
  document.querySelectorAll('[id*="-bucket-"]').forEach((area) => {
    const section = /** @type {HTMLElement} */ (area.closest(".test"));
    const mine = section && area.closest(".folder").id === `f${state.f}` && Number(section.dataset.test) === state.t;
    const bucket = Number(area.id.match(/-bucket-(\d+)/)[1]);
    area.classList.toggle("chosen", Boolean(mine && state.test && bucket === state.b));
  });
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
  highlightBucket(state);
  if (!state.test) { drawnTurn = ownTurn; return; }
  const root = document.querySelector(`#f${state.f} .explore`);
  const children = [...drawControls(state)];
  if (state.e === undefined) children.push(element("p", { class: "note" }, `No ${state.test.noun} of this bucket are at hand.`));
  else children.push(...listExamples(state), ...drawExample(state), ...(await drawAttention(state)));
  if (ownTurn !== turn) return;
  redraw(root, ...children);
  drawnTurn = ownTurn;
}

document.querySelectorAll(".test").forEach((/** @type {HTMLElement} */ section) => {
  const f = Number(section.closest(".folder").id.slice(1)), t = Number(section.dataset.test);
  if (!folders[f].tests[t]) return;
  section.classList.add("linked");
  section.querySelectorAll('[id*="-bucket-"]').forEach((area) => area.addEventListener("click", () => {
    const { seed, sort } = readState();
    changeAddress({ f, t, b: Number(area.id.match(/-bucket-(\d+)/)[1]), seed, sort, e: "" });
    document.querySelector(`#f${f} .explore`).scrollIntoView({ block: "nearest" });
  }));
});
addEventListener("hashchange", render);
render();
