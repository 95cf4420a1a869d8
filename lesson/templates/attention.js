// The attention panel of the report and the live page: which head is shown, and its map.
import { addressWith, changeAddress, chooser, csvAddress, element, parseIndex, patch, readAddress } from "./page.js";

const MIN_TARGET_WEIGHT = 0.02; // from which a map has a column for it: GPT also attends to the target
const MIN_DRAWN = 0.004;
const CELL = 18;
const ALIGN = "align";

/** @typedef {{ src: string[], n: number, tgt: string[], weights: number[][] }} HeadMap n: source tokens */
/** @typedef {{ layers: number, heads: number, aligned_layers: number[] }} Sizes */

/** The layer and head that the address names; "align" is the mean that `align` computes.
 * @param {Sizes} sizes
 * @param {string[]} others further values of l
 * @returns {{ layer: number | string, head: number }} */
export function selectedHead({ layers, heads }, others = []) {
  const { l, h } = readAddress();
  const layer = others.includes(l) ? l : parseIndex(l ?? "", layers, -1);
  return { layer: layer === -1 ? ALIGN : layer, head: parseIndex(h, heads) };
}

/** The map of one head, or of the mean, from one row of (layers, heads, source) weights per target
 * token. Weight that is not on the source is on the target, the last column.
 * @param {string[]} src
 * @param {string[]} tgt
 * @param {ArrayLike<number>[]} rows
 * @param {Pick<Sizes, "heads" | "aligned_layers">} sizes
 * @param {number | string} layer
 * @param {number} head
 * @returns {HeadMap} */
export function selectWeights(src, tgt, rows, { heads, aligned_layers: aligned }, layer, head) {
  const n = src.length;
  const parts = layer === ALIGN ? aligned.flatMap((l) => Array.from({ length: heads }, (_, h) => l * heads + h)) : [Number(layer) * heads + head];
  const averaged = rows.map((row) => Array.from({ length: n }, (_, s) =>
    parts.reduce((sum, i) => sum + row[i * n + s], 0) / parts.length));
  const onTarget = averaged.map((row) => Math.max(0, 1 - row.reduce((sum, weight) => sum + weight, 0)));
  const isWhole = onTarget.every((weight) => weight < MIN_TARGET_WEIGHT);
  return { src: isWhole ? src : [...src, "the target"], n, tgt, weights: isWhole ? averaged : averaged.map((row, t) => [...row, onTarget[t]]) };
}

/** How wide the longest of these words is drawn, in pixels. */
function measureWords(words) {
  const context = document.createElement("canvas").getContext?.("2d");
  if (!context) return 8 * Math.max(0, ...words.map((word) => [...word].length));
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.ceil(Math.max(0, ...words.map((word) => context.measureText(word).width)));
}

/** A map whose labels stay in sight, to which rows are added as they come; one cell can be read. */
class HeatMap {
  constructor() {
    this.top = element("svg", { class: "top", "aria-hidden": "true" });
    this.left = element("svg", { class: "left", "aria-hidden": "true" });
    this.cells = element("svg", { role: "img" });
    this.cursor = element("rect", { class: "cursor", width: CELL, height: CELL, visibility: "hidden" });
    this.root = element("div", { class: "map", tabindex: "0", role: "region", "aria-label": "attention map; arrow keys read its cells" },
      element("div", { class: "corner" }), this.top, this.left, this.cells);
    this.readout = element("p", { class: "note", "aria-live": "polite" });
    /** @type {HeadMap | null} */
    this.map = null;
    this.id = "";
    this.at = [0, -1];
    this.cells.addEventListener("pointermove", (event) => this.point(event));
    this.cells.addEventListener("click", (event) => this.point(event));
    this.root.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      this.read(this.at[0] + step[0], this.at[1] + step[1]);
    });
  }

  point(event) {
    const box = this.cells.getBoundingClientRect();
    this.read(Math.floor((event.clientY - box.top) / CELL), Math.floor((event.clientX - box.left) / CELL));
  }

  read(row, column) {
    if (!this.map?.tgt.length) return;
    const { src, tgt, weights } = this.map, within = (i, n) => Math.max(0, Math.min(n - 1, i));
    const t = within(row, tgt.length), s = within(column, src.length);
    this.at = [t, s];
    for (const [key, value] of Object.entries({ x: s * CELL, y: t * CELL, visibility: "visible" })) this.cursor.setAttribute(key, value);
    this.readout.replaceChildren(element("bdi", {}, tgt[t]), " → ", element("bdi", {}, src[s]), `: ${weights[t][s].toFixed(3)}`);
  }

  /** Show a map; the rows of `id` that are drawn already stay. */
  show(map, label, id) {
    const { src, n, tgt, weights } = map, width = CELL * src.length, height = CELL * tgt.length;
    const isSame = this.map && id === this.id && src.length === this.map.src.length && this.map.tgt.every((word, t) => word === tgt[t]);
    const drawn = isSame ? this.map.tgt.length : 0;
    const size = (svg, w, h) => { svg.setAttribute("width", w); svg.setAttribute("height", h); };
    if (!isSame) {
      const above = measureWords(src) + 10;
      [this.id, this.longest, this.at] = [id, 0, [0, -1]];
      this.readout.textContent = "Point at a cell, or use the arrow keys, to read its weight.";
      this.cursor.setAttribute("visibility", "hidden");
      size(this.top, width, above);
      this.top.replaceChildren(...src.map((word, s) => element("text",
        { transform: `translate(${CELL * (s + 0.7)} ${above - 5}) rotate(-90)`, "font-style": s < n ? undefined : "italic" }, word)));
      this.left.replaceChildren();
      this.cells.replaceChildren(element("rect", { class: "frame", x: 0, y: 0, width, height }), this.cursor);
    }
    this.map = map;
    this.longest = Math.max(this.longest, measureWords(tgt.slice(drawn)) + 10);
    size(this.left, this.longest, height);
    size(this.cells, width, height);
    this.cells.setAttribute("aria-label", `${label}: ${tgt.length} target tokens attend to ${n} source tokens`);
    this.cells.querySelector(".frame").setAttribute("height", height);
    this.left.append(...tgt.slice(drawn).map((word, i) => element("text", { x: 4, y: CELL * (drawn + i + 0.72) }, word)));
    weights.slice(drawn).forEach((row, i) => this.cells.append(...row.flatMap((weight, s) => (weight < MIN_DRAWN ? [] : [element("rect",
      { class: "cell", x: CELL * s, y: CELL * (drawn + i), width: CELL, height: CELL, "fill-opacity": weight.toFixed(3) })]))));
    this.cells.append(this.cursor);
  }
}

/** The panel: lists of models, layers and heads, and the map. It changes only what has changed. */
export class AttentionPanel {
  constructor(heading) {
    this.controls = element("div", { class: "controls" });
    this.map = new HeatMap();
    this.note = element("p", { class: "note" });
    this.links = element("p", { class: "note" });
    this.legend = element("p", { class: "note" });
    this.root = element("div", { class: "attention" }, element(heading, {}, "What it attends to"), this.controls, this.note,
      this.map.root, this.map.readout, this.legend, this.links);
  }

  /** Show a model's attention.
   * @param {{ models: [number, string][], run: number, label: string, sizes: Sizes, src?: string[], tgt?: string[],
   *   rows?: ArrayLike<number>[], note?: string, isFinished?: boolean, id?: string,
   *   others?: [string, string][], map?: HeadMap, names?: string[], mute?: { isMuted: boolean, toggle: () => void } | null }} given
   *   note: why there is no map; id: of the text that is written; others: attentions that are
   *   not over the source; map: of one of them; names: what is known of each head */
  show({ models, run, label, sizes, src = [], tgt = [], rows = [], note = "", isFinished = true, id = "", others = [], map, names = [], mute = null }) {
    const { layers, heads } = sizes, { layer, head } = selectedHead(sizes, others.map(([value]) => value));
    const numbered = (name, n) => Array.from({ length: n }, (_, i) => [i, `${name} ${i + 1}`]);
    const mean = `mean over the ${heads > 1 ? "heads of the last layer" : "source"}`;
    const layersListed = [...(heads > 1 || layers > 1 ? [[ALIGN, mean]] : [[ALIGN, "its weights"]]),
      ...(heads > 1 || layers > 1 ? numbered(others.length ? "to the source, layer" : "layer", layers) : []), ...others];
    const lists = [["model", "m", models, run], ["attention", "l", layersListed, layer],
      ...(layer === ALIGN ? [] : [["head", "h", numbered("head", heads).map(([i, own]) => [i, names[i] ? `${own}: ${names[i]}` : own]), head]])];
    const isMean = layer === ALIGN, muting = /** @type {any[]} */ (isMean ? ["choose a head to mute", "", sizes.aligned_layers.at(-1)] : ["mute this head", ""]);
    patch(this.controls, mute ? [...lists, muting] : lists, ([name, , options]) => JSON.stringify([name, options]), ([name, key, options, chosen]) => {
      if (key) return chooser(name, key, options, chosen);
      if (!isMean) return element("label", {}, element("input", { type: "checkbox", "data-key": "mute" }), name);
      const button = element("button", { type: "button" }, name);
      button.addEventListener("click", () => changeAddress({ l: String(options), h: "0" }));
      return button;
    });
    const set = (key, values) => Object.assign(this.controls.querySelector(`[data-key=${key}]`), values);
    for (const [, key, , chosen] of lists) set(key, { value: chosen });
    if (mute && !isMean) set("mute", { checked: mute.isMuted, onchange: mute.toggle });
    const isOnSource = layer === ALIGN || typeof layer === "number";
    const hasMap = !note && (isOnSource ? tgt.length > 0 && rows.length > 0 : Boolean(map));
    for (const part of [this.map.root, this.map.readout, this.legend, this.links]) part.hidden = !hasMap;
    this.note.hidden = hasMap;
    this.note.textContent = note || "nothing is written yet";
    if (!hasMap) return this.root;
    const drawn = isOnSource ? selectWeights(src, tgt, rows, sizes, layer, head) : map;
    this.map.show(drawn, label, `${id} ${run} ${layer} ${head}`);
    this.legend.textContent = `Rows: ${isOnSource ? "target tokens, as they are written. Columns: source tokens" : "the tokens that look. Columns: the tokens that they look at"}. The stronger the colour, the larger the weight.`;
    this.links.hidden = !isFinished;
    if (isFinished) {
      const rows = drawn.tgt.map((word, t) => [word, ...drawn.weights[t].map((weight) => Number(weight.toFixed(6)))]);
      this.links.replaceChildren(
        element("a", { download: "attention.csv", href: csvAddress([["", ...drawn.src], ...rows]) }, "its numbers as CSV"), ", ",
        element("a", { href: addressWith({}) }, "link to this view"));
    }
    return this.root;
  }
}
