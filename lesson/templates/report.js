import { AttentionPanel } from "./attention.js";
import { MARKS_NOTE, formatRight, markPart, showDifferences } from "./differences.js";
import { changeAddress, element, parseIndex, readAddress, unpack } from "./page.js";

// The state of the page is its address: #b=bucket&e=example, and &m=run&l=layer&h=head of the map.
const { buckets, start, runs, examples, maps } = JSON.parse(document.getElementById("data").textContent);
const PARTS = 2000; // a weight is stored as a whole number of such parts

function readState() {
  const { b = "", e = "" } = readAddress(), bucket = parseIndex(b, buckets.length, start), { low, high } = buckets[bucket];
  const listed = examples.flatMap(({ x }, i) => (x >= low && x <= high ? [i] : []));
  return { bucket, listed, chosen: listed.includes(Number(e)) && e !== "" ? Number(e) : listed[0] };
}

const choose = (i) => changeAddress({ e: String(i) });

function listSentences({ bucket, listed, chosen }) {
  const list = document.querySelector(".pick"), key = String(bucket);
  document.querySelector(".count").textContent = `${listed.length} of ${buckets[bucket].name}, the largest difference between models first`;
  document.querySelectorAll("#scores thead a").forEach((a, i) => { a.ariaCurrent = String(i === bucket); });
  if (list.getAttribute("data-bucket") !== key) {
    list.setAttribute("data-bucket", key);
    list.replaceChildren(...listed.map((i) => element("li", { role: "option", id: `option-${i}` },
      element("span", { dir: "auto" }, examples[i].src || "(empty)"), ...(maps[i] ? [element("span", { class: "chip" }, "map")] : []))));
  }
  for (const option of list.children) option.setAttribute("aria-selected", String(option.id === `option-${chosen}`));
  list.setAttribute("aria-activedescendant", `option-${chosen}`);
  document.getElementById(`option-${chosen}`)?.scrollIntoView?.({ block: "nearest" });
}

function drawExample({ chosen }) {
  const { src, ref, hyps, scores } = examples[chosen];
  const rows = runs.map((label, k) => element("tr", {}, element("th", { scope: "row" }, label),
    element("td", { class: "text", dir: "auto" }, ...(hyps[k] === null ? ["–"] : showDifferences(hyps[k], ref).map(markPart))),
    element("td", {}, hyps[k] === null ? "–" : formatRight(hyps[k], ref)), element("td", {}, String(scores[k]))));
  return [
    element("p", {}, element("strong", {}, "source "), element("bdi", {}, src || "(empty)")), element("p", {}, element("strong", {}, "reference "), element("bdi", {}, ref)),
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "what the models wrote" }, element("table", {},
      element("thead", {}, element("tr", {}, ...["model", "written", "words right", "score"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows))),
    element("p", { class: "note" }, MARKS_NOTE)];
}

/** @type {AttentionPanel | undefined} */
let panel;
async function drawAttention({ chosen }) {
  const its = maps[chosen] ?? [], withMaps = runs.flatMap((label, k) => (its[k] ? [[k, label]] : []));
  if (!withMaps.length) return [element("p", { class: "note" }, "No map of this sentence is in the page; those that have one are marked in the list.")];
  const run = Number((withMaps.find(([k]) => String(k) === readAddress().m) ?? withMaps[0])[0]), { src, tgt, weights, ...sizes } = its[run];
  const parts = new Uint16Array(await unpack({ base64: weights })), size = parts.length / tgt.length;
  const rows = tgt.map((_, t) => Array.from(parts.subarray(t * size, (t + 1) * size), (part) => part / PARTS));
  panel ??= new AttentionPanel("h2");
  panel.show({ models: withMaps, run, label: runs[run], sizes, src, tgt, rows, id: String(chosen) });
  return [panel.root];
}

let turn = 0; // a choice can be made while the one before is being drawn
async function render() {
  const own = ++turn, state = readState();
  listSentences(state);
  const isEmpty = state.chosen === undefined;
  document.getElementById("example").replaceChildren(...(isEmpty ? [] : drawExample(state)));
  const attention = isEmpty ? [] : await drawAttention(state);
  if (own !== turn) return;
  const root = document.getElementById("attention");
  if (root.firstChild !== attention[0] || !attention.length) root.replaceChildren(...attention);
  document.body.dataset.drawn = String(state.chosen);
}

if (examples.length) {
  /** @type {HTMLElement} */
  const list = document.querySelector(".pick");
  list.addEventListener("click", ({ target }) => {
    const option = /** @type {Element} */ (target).closest("[role=option]");
    if (option) choose(Number(option.id.slice(7)));
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], { listed, chosen } = readState();
    if (!step) return;
    event.preventDefault();
    choose(listed[Math.max(0, Math.min(listed.length - 1, listed.indexOf(chosen) + step))]);
  });
  addEventListener("hashchange", render);
  render();
}
