"use strict";
// What the scripts of the report and the live page share. A page's state is its address.
const MIN_TARGET_WEIGHT = 0.02; // from which a map has a column for it: GPT also attends to the target

const readAddress = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const addressWith = (changes) => "#" + new URLSearchParams({ ...readAddress(), ...changes });
const changeAddress = (changes) => { location.hash = addressWith(changes); };

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "text", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const link = (text, changes, current) =>
  element("a", { href: addressWith(changes), "aria-current": current ? "true" : undefined }, text);

function chooser(label, key, options, chosen) {
  const select = element("select", { "data-key": key },
    ...options.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => changeAddress({ [key]: select.value }));
  return element("label", {}, label, select);
}

function parseIndex(value, n, otherwise = 0) {
  const number = Number(value);
  return Number.isInteger(number) && number >= 0 && number < n ? number : otherwise;
}

// Replace the content of a section, but keep the focus and the list's scroll position.
function redraw(root, ...children) {
  const now = document.activeElement, list = root.contains(now) && now.closest("nav, .pick");
  const focus = list ? `${list.localName === "nav" ? "nav" : ".pick"} [aria-current]`
    : root.contains(now) && now.dataset.key ? `[data-key="${now.dataset.key}"]` : null;
  const scrolled = root.querySelector(".pick")?.scrollTop ?? 0;
  root.replaceChildren(...children);
  if (root.querySelector(".pick")) root.querySelector(".pick").scrollTop = scrolled;
  if (focus) root.querySelector(focus)?.focus({ preventScroll: true });
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// Whether each word is in the longest common subsequence with the reference.
function markCommon(words, reference) {
  const n = words.length, m = reference.length;
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      best[i][j] = words[i] === reference[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const isCommon = new Array(n).fill(false);
  for (let i = 0, j = 0; i < n && j < m;) {
    if (words[i] === reference[j]) { isCommon[i] = true; i++; j++; }
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return isCommon;
}

const splitWords = (text) => text.split(/\s+/).filter(Boolean);

function markDifferences(hyp, ref) {
  const words = splitWords(hyp);
  const isCommon = markCommon(words, splitWords(ref));
  return words.flatMap((word, i) => [i ? " " : "", isCommon[i] ? word : element("mark", {}, word)]);
}

// ------------------------------------------------------------------------------- Attention

// The choosers of model, layer and head, and their values; layer "align" is the mean that `align` computes.
function attentionControls(models, run, { layers, heads }) {
  const { l, h } = readAddress(), numbered = (name, n) => Array.from({ length: n }, (_, i) => [i, `${name} ${i + 1}`]);
  const layer = l === undefined || l === "align" ? "align" : parseIndex(l, layers), head = parseIndex(h, heads);
  const controls = element("div", { class: "controls" },
    chooser("model", "m", models, run),
    chooser("attention", "l", [["align", "mean (align)"], ...numbered("layer", layers)], layer),
    ...(layer === "align" ? [] : [chooser("head", "h", numbered("head", heads), head)]));
  return { layer, head, controls };
}

// The map of one head, or of the mean that `align` computes, from one row of (layers, heads, source)
// weights per target token. Weight that is not on the source is on the target, the last column.
function selectWeights(src, tgt, rows, { heads, aligned_layers: aligned }, layer, head) {
  const n = src.length;
  const parts = layer === "align" ? aligned.flatMap((l) => Array.from({ length: heads }, (_, h) => l * heads + h)) : [layer * heads + head];
  const averaged = rows.map((row) => Array.from({ length: n }, (_, s) =>
    parts.reduce((sum, i) => sum + row[i * n + s], 0) / parts.length));
  const onTarget = averaged.map((row) => Math.max(0, 1 - row.reduce((sum, weight) => sum + weight, 0)));
  const isWhole = onTarget.every((weight) => weight < MIN_TARGET_WEIGHT);
  return { src: isWhole ? src : [...src, "the target"], n, tgt, weights: isWhole ? averaged : averaged.map((row, t) => [...row, onTarget[t]]) };
}

function drawMap({ src, n, tgt, weights }, label) {
  const cell = 18, longest = (words) => Math.max(...words.map((word) => [...word].length));
  const left = 8 + 7.5 * longest(tgt), above = 8 + 7.5 * longest(src);
  const width = left + cell * src.length + 8, height = above + cell * tgt.length + 8;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${label}: ${tgt.length} target tokens attend to ${n} source tokens` });
  src.forEach((word, s) => svg.append(element("text",
    { transform: `translate(${left + cell * (s + 0.7)} ${above - 5}) rotate(-90)`, "font-style": s < n ? undefined : "italic" }, word)));
  tgt.forEach((word, t) => svg.append(element("text",
    { x: left - 5, y: above + cell * (t + 0.72), "text-anchor": "end" }, word)));
  weights.forEach((row, t) => row.forEach((weight, s) => weight >= 0.004 && svg.append(
    element("rect", { class: "cell", x: left + cell * s, y: above + cell * t, width: cell, height: cell, "fill-opacity": weight.toFixed(3) },
      element("title", {}, `${tgt[t]} → ${src[s]}: ${weight.toFixed(3)}`)))));
  svg.append(element("rect", { class: "frame", x: left, y: above, width: cell * src.length, height: cell * tgt.length }));
  return element("div", { class: "map wide", tabindex: "0", role: "region", "aria-label": "attention map" }, svg,
    element("p", { class: "note" }, "Rows: target tokens, as they are written. Columns: source tokens. The stronger the colour, the larger the weight."));
}

const csvAddress = (rows) => "data:text/csv;charset=utf-8," + encodeURIComponent(rows.map((row) =>
  row.map((cell) => (typeof cell === "number" ? cell : `"${cell.replaceAll('"', '""')}"`)).join(",")).join("\n"));

function mapLinks({ src, tgt, weights }) {
  const rows = tgt.map((word, t) => [word, ...weights[t].map((weight) => Number(weight.toFixed(6)))]);
  return element("p", { class: "note" },
    element("a", { download: "attention.csv", href: csvAddress([["", ...src], ...rows]) }, "its numbers as CSV"), ", ",
    element("a", { href: location.hash || "#" }, "link to this view"));
}
