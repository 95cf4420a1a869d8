// The opening picture: a sentence is read and written, token by token, by an encoder with one vector, by one
// with a vector for each word, and from the vector that could have been written.
import { formatRight, markPart, showDifferences, splitWords, countRight } from "./differences.js";
import { element, query } from "./page.js";

const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const COLUMNS = 4, MOST_ROWS = 76, WIDEST = 16, SECONDS = 10, SLOWEST_MS = 320, LEAST_WEIGHT = 0.05;

/** The numbers from -1 to 1 of a text with one of 64 levels a digit. @param {string} text */
export const readLevels = (text) => Array.from(text, (digit) => LEVELS.indexOf(digit) / 31.5 - 1);

/** What is done after so many moments: tokens read, then words written. @param {number} moment @param {number} nRead */
export const splitMoment = (moment, nRead) => ({ read: Math.min(moment, nRead), written: Math.max(0, moment - nRead) });

/** Where a word looks: places and weights. @param {string | undefined} weights a digit of 64 levels for each place; without them, all on the first */
export function findLooks(weights) {
  const all = weights === undefined ? [1] : Array.from(weights, (digit) => LEVELS.indexOf(digit) / 63);
  return all.map((weight, place) => ({ place, weight })).filter(({ weight }) => weight >= LEAST_WEIGHT);
}

/** The share of right words. */
const shareOf = (output, ref) => (({ right, words }) => right / words)(countRight(output, ref));

/** A strip of cells, one pixel each, in the colours of a canvas. @param {number[]} numbers @param {CSSStyleDeclaration} style */
function paintStrip(numbers, style) {
  const strip = element("canvas", { width: COLUMNS, height: Math.ceil(numbers.length / COLUMNS) });
  const context = strip.getContext("2d");
  numbers.forEach((x, i) => {
    context.globalAlpha = Math.abs(x);
    context.fillStyle = x < 0 ? style.borderTopColor : style.color;
    context.fillRect(i % COLUMNS, Math.floor(i / COLUMNS), 1, 1);
  });
  return strip;
}

class Machine {
  constructor(section, kind) {
    this.section = section;
    this.kind = kind;
    this.said = section.querySelector(".said");
    this.canvas = element("canvas", { "aria-hidden": "true" });
    section.prepend(this.canvas);
  }

  /** Take a sentence: its words are there from now on, hidden until they are written. */
  take(row) {
    const output = row.outputs[this.kind];
    this.row = row;
    this.nRead = row.annotations.length;
    this.parts = showDifferences(output, row.ref).map((part) => ({ ...part, node: markPart(part) }));
    this.said.replaceChildren(...this.parts.map(({ node }) => node));
    this.words = [...this.said.querySelectorAll(".w")];
    const { right, words } = countRight(output, row.ref);
    this.section.querySelector(".right").replaceChildren(element("b", {}, `${Math.round((100 * right) / words)} %`), ` right: ${formatRight(output, row.ref)} words`);
    this.stages = [[row.vectors.at(-1), ...row.best], row.annotations, row.vectors][[2, 1, 0][this.kind]];
    this.strips = null;
  }

  /** Show how far the machine is. @param {number} read @param {number} written @param {number} chosen a word, or -1 */
  show(read, written, chosen) {
    let before = -1;
    for (const { index, node } of this.parts) {
      before = index < 0 ? before : index;
      const order = index < 0 ? Math.min(before + 1, this.words.length - 1) : index;
      node.classList.toggle("ahead", order >= written);
    }
    this.isOver = written >= this.words.length;
    this.section.querySelector(".right").classList.toggle("ahead", !this.isOver);
    this.now = chosen >= 0 && chosen < written ? chosen : this.isOver ? -1 : written - 1;
    this.paint(read, written);
  }

  paint(read, written) {
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const box = this.section.getBoundingClientRect(), area = this.section.querySelector(".cells").getBoundingClientRect();
    const style = getComputedStyle(this.canvas), sharp = devicePixelRatio;
    this.strips ??= this.stages.map((text) => paintStrip(readLevels(text), style));
    Object.assign(this.canvas, { width: box.width * sharp, height: box.height * sharp });
    context.setTransform(sharp, 0, 0, sharp, -box.left * sharp, -box.top * sharp);
    const pitch = Math.min(WIDEST + 2, area.width / this.nRead), unit = area.height / MOST_ROWS;
    const isMany = this.kind === 1, n = isMany ? this.nRead : 1, left = area.left + (area.width - n * pitch) / 2;
    const xOf = (j) => left + pitch * (j + 0.5);
    context.imageSmoothingEnabled = false;
    context.strokeStyle = context.fillStyle = style.outlineColor;
    context.font = "0.8rem system-ui, sans-serif";
    const place = (strip, j, from, to) => {
      const width = pitch - Math.min(2, pitch / 4);
      context.drawImage(strip, 0, from, COLUMNS, to - from, xOf(j) - width / 2, area.top + from * unit, width, (to - from) * unit);
    };
    let bottom = area.top + MOST_ROWS * unit;
    if (isMany) {
      const room = context.measureText("backwards ").width, half = area.top + (MOST_ROWS / 2) * unit;
      if (read && (this.nRead - read) * pitch > room) {
        context.fillText("forwards", left, half + room / 5); // a fifth of it is the height of a line
        context.fillText("backwards", left + n * pitch - room, half - 6);
      }
      this.strips.forEach((strip, j) => {
        if (j < read) place(strip, j, 0, strip.height / 2);
        if (j >= this.nRead - read) place(strip, j, strip.height / 2, strip.height);
      });
    } else if (read || this.kind === 2) {
      const stage = this.kind === 0 ? read - 1 : Math.min(this.strips.length - 1, Math.floor((read * this.strips.length) / this.nRead));
      const strip = this.strips[stage];
      bottom = area.top + strip.height * unit;
      place(strip, 0, 0, strip.height);
      if (this.kind === 2) context.fillText(`step ${this.row.steps[stage]}`, xOf(0) + pitch, area.top + 10);
    }
    const { top } = this.said.getBoundingClientRect(), middle = (bottom + top) / 2;
    for (const [k, word] of this.words.slice(0, written).entries()) {
      const at = word.getBoundingClientRect(), x = at.left + at.width / 2, y = at.top + 4;
      for (const { place: j, weight } of findLooks(isMany ? this.row.weights[k] : undefined)) {
        context.globalAlpha = k === this.now ? Math.max(0.4, weight) : weight * (this.now < 0 ? 0.3 : 0.12);
        context.lineWidth = k === this.now ? 2.5 : 1;
        context.beginPath();
        context.moveTo(xOf(j), bottom + 1);
        context.bezierCurveTo(xOf(j), middle, x, middle, x, top);
        context.stroke();
        if (k !== this.now) continue;
        context.globalAlpha *= 0.25; // between lines of the text
        context.fillRect(x - context.lineWidth / 2, top, context.lineWidth, y - top);
      }
    }
  }
}

{
  const rows = JSON.parse(document.getElementById("data").textContent), figure = query("#opening");
  const button = query("#play"), length = query("#length"), slider = query("#moment"), read = figure.querySelector(".read");
  const machines = [...figure.querySelectorAll(".machine")].map((section, kind) => new Machine(section, kind));
  let row = rows[0], moment = 0, last = 0, timer = 0, chosen = -1;
  /** @type {any[]} */
  let sources = [];

  const show = () => {
    const done = splitMoment(moment, row.annotations.length);
    for (const machine of machines) machine.show(done.read, done.written, chosen);
    const { now } = machines[1], weights = done.written && now >= 0 ? findLooks(row.weights[now]) : [];
    sources.forEach((word, j) => {
      word.classList.toggle("ahead", j >= done.read);
      const weight = done.written ? weights.find(({ place }) => place === j)?.weight ?? 0 : Number(j === done.read - 1);
      word.style.setProperty("--w", String(weight));
    });
    slider.value = String(moment);
    slider.ariaValueText = done.written ? `${done.written} words written` : `${done.read} of ${row.annotations.length} read`;
    button.textContent = timer ? "Pause" : moment === last ? "Play again" : "Play";
  };
  const stop = () => { clearInterval(timer); timer = 0; };
  const go = () => {
    if (moment === last) moment = 0;
    timer = setInterval(() => {
      if (++moment === last) stop();
      show();
    }, Math.min(SLOWEST_MS, (1000 * SECONDS) / last));
    show();
  };
  const toggle = () => { if (timer) { stop(); show(); } else go(); };
  const choose = (i) => {
    stop();
    row = rows[i];
    chosen = -1;
    sources = splitWords(row.src).map(({ text, space }) => element("span", {}, space, element("span", { class: "w" }, text)));
    read.replaceChildren(...sources);
    for (const machine of machines) machine.take(row);
    last = row.annotations.length + Math.max(...machines.map(({ words }) => words.length));
    moment = last;
    slider.max = String(last);
    const label = `${sources.filter((word) => /\w/.test(word.textContent)).length} words`;
    length.ariaValueText = figure.querySelector("output").textContent = label;
    show();
  };
  const point = (event) => {
    const word = event.target.closest(".said .w");
    chosen = word ? Number(word.dataset.w) : -1;
    if (!timer) show();
  };

  figure.hidden = false;
  button.addEventListener("click", toggle);
  length.addEventListener("input", () => choose(Number(length.value)));
  slider.addEventListener("input", () => { stop(); moment = Number(slider.value); show(); });
  for (const type of ["pointerover", "pointerleave"]) figure.addEventListener(type, point);
  figure.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target !== button) { event.preventDefault(); toggle(); }
  });
  new ResizeObserver(() => show()).observe(figure);
  matchMedia("(prefers-color-scheme: dark)").onchange = () => { for (const machine of machines) machine.strips = null; show(); };
  length.value = String(rows.findIndex((one) => shareOf(one.outputs[0], one.ref) < 0.5));
  choose(Number(length.value));
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
    moment = 0;
    const watch = new IntersectionObserver(([{ isIntersecting }]) => { if (isIntersecting) { watch.disconnect(); go(); } });
    watch.observe(figure);
  }
}
