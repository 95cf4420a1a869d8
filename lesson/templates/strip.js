// A chart of the shares of words right: a dot for each model and sentence, as they are written.
import { csvAddress, element } from "./page.js";

const WIDTH = 360, HEIGHT = 220, LEFT = 44, TOP = 8, BELOW = 40, RADIUS = 4;

export class StripChart {
  /** @param {{ runs: { label: string, colour: string, is_vector: boolean }[], first: number, last: number,
   *   limit: number | null, unit: string }} given from the first to the last length */
  constructor({ runs, first, last, limit, unit }) {
    this.runs = runs;
    this.unit = unit;
    this.x = (words) => LEFT + RADIUS + ((WIDTH - LEFT - 2 * RADIUS) * (words - first)) / Math.max(1, last - first);
    this.y = (share) => TOP + (HEIGHT - TOP - BELOW) * (1 - share);
    /** @type {Map<string, [string, number, number, number]>} model, words of the source, right, of the longer of output and reference */
    this.points = new Map();
    const text = (x, y, anchor, content) => element("text", { x, y, "text-anchor": anchor }, content);
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "strip" });
    for (const share of [0, 0.5, 1]) {
      this.svg.append(element("line", { x1: LEFT, x2: WIDTH, y1: this.y(share), y2: this.y(share) }),
        text(LEFT - 6, this.y(share) + 4, "end", `${100 * share} %`));
    }
    for (const x of [first, last]) this.svg.append(text(this.x(x), HEIGHT - BELOW + 18, x === first ? "start" : "end", String(x)));
    this.svg.append(text((LEFT + WIDTH) / 2, HEIGHT - 4, "middle", `${unit} of the source`));
    if (limit !== null && limit >= first && limit < last) {
      this.svg.append(element("line", { class: "limit", x1: this.x(limit), x2: this.x(limit), y1: TOP, y2: HEIGHT - BELOW }),
        text(this.x(limit), HEIGHT - BELOW + 18, "middle", `${limit}: training`));
    }
    this.describe();
  }

  /** Add a dot, once for each model and sentence; return whether it is new. */
  add(run, source, x, right, words) {
    const key = `${run} ${source}`, { colour, is_vector: isVector, label } = this.runs[run];
    if (this.points.has(key) || !words) return false;
    this.points.set(key, [label, x, right, words]);
    const beside = 2.5 * (run - (this.runs.length - 1) / 2); // equal shares of several models can be told apart
    const [cx, cy] = [this.x(x) + beside, this.y(right / words)], style = `--model: ${colour}`;
    this.svg.append(isVector ? element("rect", { class: "dot", style, x: cx - RADIUS, y: cy - RADIUS, width: 2 * RADIUS, height: 2 * RADIUS })
      : element("circle", { class: "dot", style, cx, cy, r: RADIUS }));
    this.describe();
    return true;
  }

  describe() {
    this.svg.setAttribute("aria-label", `share of words right by length: ${this.points.size} dots, one for each model and sentence written so far`);
  }

  get address() {
    return csvAddress([["model", `${this.unit} of the source`, "right", "of the longer"], ...this.points.values()]);
  }
}
