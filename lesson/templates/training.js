// Trains models in a worker, all on the same batches: pairs of a sentence and its copy.
import { csvAddress, element, isUnserved, query, showFailure, take, unpack } from "./page.js";

const data = JSON.parse(query("#data").textContent), { runs, alphabet, n_pairs: nPairs, max_words: maxWords, ids } = data;
const WINDOW = 50, WIDTH = 350, HEIGHT = 260, LEFT = 44, RIGHT = 8, TOP = 10, BELOW = 40;

/** A generator of numbers from 0 to 1, always the same ones for a seed (mulberry32). */
export const makeRandom = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let x = Math.imul(seed ^ (seed >>> 15), seed | 1);
  x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
  return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
};

/** Draw sentences of 1 to n random words, with their copies, as rows of tokens. */
export function drawBatch(random, n) {
  const draw = (k) => Math.floor(random() * k), row = (tokens, length) => [...tokens, ...Array(length - tokens.length).fill(ids.PAD)];
  const sentences = Array.from({ length: nPairs }, () =>
    Array.from({ length: 1 + draw(n) }, () => ids.first + draw(alphabet.length)));
  return { sentences, src: sentences.flatMap((words) => row(words, maxWords)),
    tgt: sentences.flatMap((words) => row([ids.BOS, ...words, ids.EOS], maxWords + 2)) };
}

/** Lines over a pair of axes.
 * @param {string} selector @param {string} xTitle @param {number} top the largest y @param {(y: number) => string} format */
class Chart {
  constructor(selector, xTitle, top, format, hasDots = false) {
    const text = (x, y, anchor, content) => element("text", { x, y, "text-anchor": anchor }, content);
    this.y = (value) => TOP + (HEIGHT - TOP - BELOW) * (1 - value / top);
    this.svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "strip" });
    for (const share of [0, 0.5, 1]) {
      const y = this.y(share * top);
      this.svg.append(element("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y }), text(LEFT - 6, y + 4, "end", format(share * top)));
    }
    this.ends = [text(LEFT, HEIGHT - BELOW + 18, "start", ""), text(WIDTH - RIGHT, HEIGHT - BELOW + 18, "end", "")];
    this.lines = runs.map(({ colour, is_vector: isVector }) => element("polyline",
      { class: "curve", style: `--model: ${colour}`, "stroke-dasharray": isVector ? "6 3" : null }));
    this.dots = element("g");
    this.hasDots = hasDots;
    this.svg.append(...this.ends, text((LEFT + WIDTH) / 2, HEIGHT - 4, "middle", xTitle), ...this.lines, this.dots);
    query(selector).append(this.svg);
  }

  /** Draw a list of points for each model, for x from `first` to `last`. */
  draw(first, last, points, label) {
    const x = (value) => LEFT + RIGHT + ((WIDTH - LEFT - 2 * RIGHT) * (value - first)) / Math.max(1, last - first);
    this.ends.forEach((end, i) => { end.textContent = String(i ? last : first); });
    this.dots.replaceChildren();
    points.forEach((its, i) => {
      const places = its.map(([a, b]) => [x(a), this.y(b)]), style = `--model: ${runs[i].colour}`;
      this.lines[i].setAttribute("points", places.join(" "));
      for (const [cx, cy] of this.hasDots ? places : []) {
        this.dots.append(runs[i].is_vector ? element("rect", { class: "dot", style, x: cx - 4, y: cy - 4, width: 8, height: 8 })
          : element("circle", { class: "dot", style, cx, cy, r: 4 }));
      }
    });
    this.svg.setAttribute("aria-label", label);
  }
}

const losses = new Chart("#losses", "steps of training", 3, (y) => y.toFixed(1));
const shares = new Chart("#shares", "words of the sentence", 1, (y) => `${100 * y} %`, true);
const button = query("#train"), length = query("#length"), status = query("#status");
/** @type {{ sentences: number[][], steps: { loss: number, best: Uint8Array }[] }[]} */
let history = [];
let random, batch, worker, nLoaded = 0, isRunning = false, isWaiting = false;

/** What a model says in a row of its batch, given the right words before. */
const bestOf = ({ best }, row) => best.subarray(row * (maxWords + 1), (row + 1) * (maxWords + 1));
const letterOf = (id) => alphabet[id - ids.first] ?? "▪";

/** Right words and all words of sentences of each length in the last batches, of each model. */
const countRight = () => runs.map((_, i) => {
  const counts = Array.from({ length: Number(length.value) }, (_, n) => [n + 1, 0, 0]);
  for (const { sentences, steps } of history.slice(-WINDOW)) {
    sentences.forEach((words, row) => {
      const count = counts[words.length - 1], best = bestOf(steps[i], row);
      count[1] += words.filter((word, j) => word === best[j]).length;
      count[2] += words.length;
    });
  }
  return counts.filter(([, , all]) => all);
});

function draw() {
  const n = Number(length.value), step = history.length, counts = countRight();
  button.disabled = nLoaded < runs.length || step >= data.max_steps;
  for (const id of ["#words", "#longest"]) query(id).textContent = `${n} words`;
  query("#step").textContent = `${step} steps`;
  losses.draw(0, Math.max(100, step), runs.map((_, i) => history.map(({ steps }, k) => [k + 1, Math.min(3, steps[i].loss)])),
    `loss of each model after ${step} steps`);
  shares.draw(1, n, counts.map((its) => its.map(([words, right, all]) => [words, right / all])),
    `share of words right by length of the sentence, after ${step} steps`);
  const { sentences = [], steps = [] } = history.at(-1) ?? {}, longest = sentences.reduce((a, b, i) => (b.length > sentences[a].length ? i : a), 0);
  query("#source").textContent = (sentences[longest] ?? []).map(letterOf).join("");
  runs.forEach((_, i) => {
    const [, right, all] = counts[i].find(([words]) => words === n) ?? [n, 0, 0];
    query(`#run-${i} .right`).textContent = all ? `${Math.round((100 * right) / all)} %` : "–";
    query(`#run-${i} .loss`).textContent = step ? steps[i].loss.toFixed(3) : "–";
    query(`#run-${i} .written`).replaceChildren(...(sentences[longest] ?? []).map((word, j) => {
      const id = bestOf(steps[i], longest)[j];
      return id === word ? letterOf(id) : element("mark", {}, letterOf(id));
    }));
  });
  const label = runs.map((run) => run.label);
  query("#losses-csv").href = csvAddress([["step", ...label], ...history.map(({ steps }, k) => [k + 1, ...steps.map(({ loss }) => loss)])]);
  query("#shares-csv").href = csvAddress([["model", "words", "right", "of"], ...counts.flatMap((its, i) => its.map((row) => [label[i], ...row]))]);
}

function takeStep() {
  if (!isRunning || isWaiting) return;
  batch = drawBatch(random, Number(length.value));
  isWaiting = true;
  worker.postMessage({ src: batch.src, tgt: batch.tgt, pairs: nPairs, isFirst: !history.length });
}

/** Train on, or pause. */
function run(isOn) {
  isRunning = isOn;
  button.textContent = isOn ? "Pause" : history.length ? "Go on" : "Train";
  if (nLoaded === runs.length) status.textContent = isOn ? "Training." : history.length >= data.max_steps ? "Done." : history.length ? "Paused." : "Ready.";
  takeStep();
}

function startOver() {
  history = [];
  random = makeRandom(data.seed);
  batch = null;
  run(false);
  draw();
}

const setFailed = (message) => { if (nLoaded < runs.length) showFailure(message, data.files); else status.textContent = message; };

async function start() {
  if (isUnserved(data.files)) throw new Error("this page was opened from a disk");
  const part = (id) => take(id, data.files);
  worker = new Worker(URL.createObjectURL(new Blob([await unpack(part("worker"))], { type: "text/javascript" })));
  worker.onerror = (event) => setFailed(event.message);
  worker.onmessage = ({ data: { loaded, failed, steps } }) => {
    if (failed) setFailed(failed);
    if (loaded !== undefined && ++nLoaded === runs.length) {
      draw();
      status.textContent = "Ready.";
    }
    if (!steps) return;
    isWaiting = false;
    if (batch) { // not of a training that has been given up
      history.push({ sentences: batch.sentences, steps });
      draw();
      if (history.length >= data.max_steps) run(false);
    }
    takeStep();
  };
  worker.postMessage({ part: part("wasm") });
  runs.forEach((_, i) => worker.postMessage({ train: i, theta: part(`theta-${i}`), graph: part(`graph-${i}`) }));
}

button.addEventListener("click", () => run(!isRunning));
query("#again").addEventListener("click", startOver);
length.addEventListener("input", startOver);
startOver();
start().catch((error) => setFailed(error.message));
