// Trains models in a worker, all on the same batches: pairs of a sentence and its copy.
import { element, isUnserved, query, showFailure, take, unpack } from "./page.js";

const data = JSON.parse(query("#data").textContent), { runs, alphabet, n_pairs: nPairs, max_words: maxWords, ids } = data;
const WINDOW = 50, WIDTH = 350, HEIGHT = 240, LEFT = 44, TOP = 10, BELOW = 40, MOST_NATS = 3;

/** A generator of numbers from 0 to 1, always the same ones for a seed (mulberry32). */
export const makeRandom = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let x = Math.imul(seed ^ (seed >>> 15), seed | 1);
  x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
  return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
};

/** Draw sentences of random words, with their copies, as rows of tokens. */
export function drawBatch(random) {
  const draw = (k) => Math.floor(random() * k), row = (tokens, length) => [...tokens, ...Array(length - tokens.length).fill(ids.PAD)];
  const sentences = Array.from({ length: nPairs }, () =>
    Array.from({ length: 1 + draw(maxWords) }, () => ids.first + draw(alphabet.length)));
  return { sentences, src: sentences.flatMap((words) => row(words, maxWords)),
    tgt: sentences.flatMap((words) => row([ids.BOS, ...words, ids.EOS], maxWords + 2)) };
}

/** Draw a line of points for each model into a figure, for x from first to last and y from 0 to top. */
function drawLines(selector, xTitle, first, last, top, points) {
  const x = (value) => LEFT + ((WIDTH - LEFT - 8) * (value - first)) / Math.max(1, last - first), y = (value) => TOP + (HEIGHT - TOP - BELOW) * (1 - value / top);
  const text = (...[left, above, anchor, content]) => element("text", { x: left, y: above, "text-anchor": anchor }, content);
  query(selector).replaceChildren(element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "strip", "aria-label": xTitle },
    ...[0, top].flatMap((value) => [element("line", { x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }), text(LEFT - 6, y(value) + 4, "end", String(value))]),
    text(LEFT, HEIGHT - BELOW + 18, "start", String(first)), text(WIDTH, HEIGHT - BELOW + 18, "end", String(last)), text((LEFT + WIDTH) / 2, HEIGHT - 4, "middle", xTitle),
    ...points.map((its, i) => element("polyline", { class: "curve", style: `--model: ${runs[i].colour}`, "stroke-dasharray": runs[i].is_vector ? "6 3" : null,
      points: its.map(([a, b]) => `${x(a).toFixed(1)},${y(Math.min(b, top)).toFixed(1)}`).join(" ") }))));
}

const button = query("#train"), status = query("#status");
/** @type {{ sentences: number[][], steps: { loss: number, best: Uint8Array }[] }[]} */
const history = [];
let random, batch, worker, nLoaded = 0, isRunning = false, isWaiting = false;

/** What a model says in a row of its batch, given the right words before. */
const bestOf = ({ best }, row) => best.subarray(row * (maxWords + 1), (row + 1) * (maxWords + 1));
const letterOf = (id) => alphabet[id - ids.first] ?? "▪";

/** The shares of right words of each model by length, in per cent, in the last batches. */
const countRight = () => runs.map((_, i) => Array.from({ length: maxWords }, (_, n) => {
  const its = history.slice(-WINDOW).flatMap(({ sentences, steps }) => sentences.flatMap((words, row) =>
    (words.length === n + 1 ? [words.filter((word, j) => word === bestOf(steps[i], row)[j]).length] : [])));
  return [n + 1, its.length ? (100 * its.reduce((a, b) => a + b)) / its.length / (n + 1) : 0];
}));

function draw() {
  const step = history.length, shares = countRight(), { sentences = [], steps = [] } = history.at(-1) ?? {};
  button.disabled = nLoaded < runs.length || step >= data.max_steps;
  query("#step").textContent = `${step} steps`;
  drawLines("#losses", "loss, nats, by steps of training", 0, Math.max(100, step), MOST_NATS, runs.map((_, i) => history.map((one, k) => [k + 1, one.steps[i].loss])));
  drawLines("#shares", "% of words right, by words of the sentence", 1, maxWords, 100, shares);
  const longest = sentences.reduce((a, b, i) => (b.length > sentences[a].length ? i : a), 0);
  query("#source").textContent = (sentences[longest] ?? []).map(letterOf).join("");
  runs.forEach((_, i) => {
    query(`#run-${i} .loss`).textContent = step ? steps[i].loss.toFixed(3) : "–";
    query(`#run-${i} .right`).textContent = step ? `${shares[i][maxWords - 1][1].toFixed(0)} %` : "–";
    query(`#run-${i} .written`).replaceChildren(...(sentences[longest] ?? []).map((word, j) => {
      const id = bestOf(steps[i], longest)[j];
      return id === word ? letterOf(id) : element("mark", {}, letterOf(id));
    }));
  });
}

/** Train on, or pause. */
function run(isOn) {
  isRunning = isOn && history.length < data.max_steps;
  button.textContent = isRunning ? "Pause" : history.length ? "Go on" : "Train";
  if (!isRunning || isWaiting) return;
  batch = drawBatch(random);
  isWaiting = true;
  worker.postMessage({ src: batch.src, tgt: batch.tgt, pairs: nPairs, isFirst: !history.length });
}

async function start() {
  if (isUnserved(data.files)) throw new Error("this page was opened from a disk");
  random = makeRandom(data.seed);
  draw();
  const part = (id) => take(id, data.files);
  worker = new Worker(URL.createObjectURL(new Blob([await unpack(part("worker"))], { type: "text/javascript" })));
  worker.onerror = (event) => showFailure(event.message, data.files);
  worker.onmessage = ({ data: { loaded, failed, steps } }) => {
    if (failed) showFailure(failed, data.files);
    if (loaded !== undefined && ++nLoaded === runs.length) status.textContent = "Ready.";
    if (steps) history.push({ sentences: batch.sentences, steps });
    isWaiting = isWaiting && !steps;
    draw();
    run(isRunning);
  };
  worker.postMessage({ part: part("wasm") });
  runs.forEach((_, i) => worker.postMessage({ train: i, theta: part(`theta-${i}`), graph: part(`graph-${i}`) }));
}

button.addEventListener("click", () => run(!isRunning));
start().catch((error) => showFailure(error.message, data.files));
