// The state of the page is its address: #e=example or #text=…, &m=model&l=layer&h=head
const data = JSON.parse(document.getElementById("data").textContent);
const { runs, examples } = data;
const tokenizer = makeTokenizer(data.vocabulary);
const EOS = 2, BOS = 1;
const DRAWN_EVERY = 200; // ms between two drawings of a map that grows
const query = (selector) => document.querySelector(selector);
const embedded = (id) => document.getElementById(id).textContent;

// ---------------------------------------------------------------------------------- Worker

let worker, turn = 0, receive = () => {}, finish = () => {};

// Let models write texts; `onText` gets each message. Resolves to true when all texts are finished, to
// false if another request comes first.
function requestTexts(jobs, onText) {
  finish(false);
  turn += 1;
  const open = new Set(jobs.map((job) => job.run));
  return new Promise((resolve) => {
    finish = resolve;
    receive = (message) => {
      onText(message);
      if (message.finished) open.delete(message.run);
      if (!open.size) resolve(true);
    };
    worker.postMessage({ turn, jobs });
    if (!open.size) resolve(true);
  });
}

async function start() {
  const since = performance.now();
  const script = new Blob([await unpack(embedded("worker"))], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(script));
  const loaded = new Promise((resolve, reject) => {
    let n = 0;
    worker.onmessage = ({ data: message }) => {
      if (message.failed && message.turn === undefined) reject(new Error(message.failed));
      else if (message.loaded !== undefined) {
        n += 1;
        setStatus(`${n} of ${runs.length} models are ready …`);
        if (message.sha256) query(`#sum-${message.loaded}`).textContent = message.sha256;
        if (n === runs.length) resolve();
      } else if (message.turn === turn) {
        if (message.failed) setStatus(`This failed: ${message.failed}`);
        else receive(message);
      }
    };
    worker.onerror = (event) => reject(new Error(event.message));
  });
  worker.postMessage({
    wasm: embedded("wasm"),
    runs: runs.map(({ manifest, graphs }, i) => ({
      manifest, weights: embedded(`weights-${i}`),
      graphs: Object.fromEntries(graphs.map((name) => [name, embedded(`${name}-${i}`)])),
    })),
  });
  try {
    await loaded;
  } catch (error) {
    return setStatus(`The models cannot run here: ${error.message}`);
  }
  const seconds = (performance.now() - since) / 1000;
  setStatus(`Ready after ${seconds.toFixed(1)} s.`);
  document.body.dataset.ready = seconds.toFixed(2);
  addEventListener("hashchange", render);
  return render();
}

const setStatus = (text) => { query("#status").textContent = text; };

// ----------------------------------------------------------------------------------- Texts

const normalize = (text) => {
  const composed = text.normalize("NFC");
  return data.case === "lower" ? composed.toLowerCase() : composed;
};
const encode = (text) => tokenizer.encode(normalize(text.toWellFormed ? text.toWellFormed() : text));

// A request to a model for the text that follows `text`, or the problem that prevents it.
function makeJob(run, text) {
  const ids = encode(text), { max_tokens: most } = runs[run].manifest;
  const room = (n) => (most === null ? Infinity : most - n);
  if (data.continues === "prefix") {
    const limit = Math.min(ids.length + data.n_new, room(1), data.block ?? Infinity);
    return ids.length < limit ? { run, src: [BOS], prefix: ids, limit, temperature: readTemperature() }
      : { run, problem: `reads at most ${limit - 1} tokens` };
  }
  const last = data.has_source_end && !data.continues ? [EOS] : [];
  const src = ids.length + last.length ? [...ids, ...last] : [BOS];
  const limit = Math.min(data.continues ? data.n_new : 2 * src.length + 10, room(src.length));
  return limit > 0 ? { run, src, limit, temperature: readTemperature() }
    : { run, problem: `reads at most ${most - 1} tokens` };
}

const readTemperature = () => Number(query("#temperature")?.value ?? 0);

// The text that a model has written so far for a job.
class Output {
  constructor(job) {
    Object.assign(this, { tokens: [], rows: [], ms: 0, n: 0, isFinished: Boolean(job.problem), job });
  }

  add({ token, ms, weights, isForced, finished, all }) {
    if (finished) {
      this.isFinished = true;
      if (all) this.rows = splitRows(all).slice(this.job.prefix?.length ?? 0);
      return;
    }
    this.ms += ms;
    this.n += 1;
    if (isForced || token === EOS) return;
    this.tokens.push(token);
    if (weights) this.rows.push(weights);
  }

  get text() { return tokenizer.decode(this.tokens); }
}

// One row of weights a token, (layers, heads, source) each, from (layers, heads, tokens, source).
function splitRows({ weights, dims: [L, H, T, S] }) {
  return Array.from({ length: T }, (_, t) => {
    const row = new Float32Array(L * H * S);
    for (let i = 0; i < L * H; i++) row.set(weights.subarray((i * T + t) * S, (i * T + t + 1) * S), i * S);
    return row;
  });
}

// ---------------------------------------------------------------------------------- Asking

let text, example, written = [];
const dirty = new Set();

function showSource() {
  const nWords = splitWords(text).length;
  query("#text").value = text;
  if (examples.length) {
    query("#words").textContent = `${nWords} ${data.unit}`;
    if (example) query("#length").value = examples.indexOf(example);
  }
  query("#count").textContent = `${encode(text).length} tokens`;
  query("#reference").replaceChildren(...(example
    ? [element("strong", {}, data.continues ? "in the test set " : "reference "), example.ref] : []));
  query("#legend").hidden = !isMarked();
}

const isMarked = () => Boolean(example) && !data.continues;

async function writeAll() {
  showSource();
  const jobs = runs.map((_, i) => makeJob(i, text));
  written = jobs.map((job) => new Output(job));
  written.forEach((_, i) => scheduleDraw(i));
  drawAttention();
  const since = performance.now();
  setStatus("Writing …");
  const isDone = await requestTexts(jobs.filter((job) => !job.problem), (message) => {
    written[message.run].add(message);
    scheduleDraw(message.run);
    if (message.run === selectedRun() && (written[message.run].isFinished || performance.now() - drawnAt > DRAWN_EVERY)) drawAttention();
  });
  if (!isDone) return;
  drawAttention();
  setStatus(`All have finished after ${((performance.now() - since) / 1000).toFixed(1)} s.`);
  document.body.dataset.done = String(turn);
}

// Texts are drawn once a frame, however many tokens have come.
function scheduleDraw(run) {
  if (!dirty.size) requestAnimationFrame(() => { dirty.forEach(drawOutput); dirty.clear(); });
  dirty.add(run);
}

function drawOutput(run) {
  const { tokens, n, ms, job, isFinished, text: output } = written[run], row = query(`#run-${run}`);
  const words = isMarked() ? markDifferences(output, example.ref) : [output];
  row.querySelector(".written").replaceChildren(...(job.problem ? [job.problem] : words));
  row.dataset.tokens = tokens.join(" ");
  row.dataset.finished = isFinished;
  row.querySelector(".speed").textContent = n ? `${tokens.length} tokens, ${Math.round((1000 * n) / ms).toLocaleString("en")} a second` : "";
}

// ------------------------------------------------------------------------------- Attention

let drawnAt = 0;
const attending = runs.flatMap((run, i) => (run.manifest.attention ? [i] : []));
const selectedRun = () => (attending.includes(Number(readAddress().m)) && readAddress().m !== undefined ? Number(readAddress().m) : attending[0]);

function drawAttention() {
  const root = query("#attention"), run = selectedRun();
  drawnAt = performance.now();
  if (run === undefined || !written.length) return root.replaceChildren();
  const sizes = runs[run].manifest.attention, { layer, head, controls } = attentionControls(attending.map((i) => [i, runs[i].label]), run, sizes);
  const { rows, tokens, job, isFinished } = written[run], labels = (ids) => ids.map((id) => tokenizer.labels[id]);
  const heading = element("h2", {}, "What it attends to");
  if (job.problem || !tokens.length || !rows.length) {
    const reason = sizes.graph === "attend" && !isFinished ? "drawn when the text is finished" : "nothing is written yet";
    return redraw(root, heading, controls, element("p", { class: "note" }, reason));
  }
  const map = selectWeights(labels(job.src), labels(tokens.slice(0, rows.length)), rows.slice(0, tokens.length), sizes, layer, head);
  redraw(root, heading, controls, drawMap(map, runs[run].label), ...(isFinished ? [mapLinks(map)] : []));
}

// -------------------------------------------------------------------------------- Exercise

// The share of the reference's words that each model has right, in per cent, by bucket.
async function measureShares(chosen) {
  const sums = chosen.map(() => data.buckets.map(() => ({ right: 0, words: 0, n: 0 })));
  for (const [k, { src, ref, x }] of examples.entries()) {
    const b = data.buckets.findIndex(({ low, high }) => x >= low && x <= high);
    const jobs = chosen.map((run) => makeJob(run, src)), texts = new Map(jobs.map((job) => [job.run, new Output(job)]));
    const isDone = await requestTexts(jobs.filter((job) => !job.problem), (message) => texts.get(message.run).add(message));
    if (!isDone) return null;
    setStatus(`${k + 1} of ${examples.length} ${data.noun} are written …`);
    if (b < 0) continue;
    chosen.forEach((run, i) => {
      const words = splitWords(ref), nRight = markCommon(splitWords(texts.get(run).text), words).filter(Boolean).length;
      sums[i][b].right += nRight; sums[i][b].words += words.length; sums[i][b].n += 1;
    });
  }
  return sums.map((row) => row.map(({ right, words, n }) => (n ? (100 * right) / words : null)));
}

async function runExercise(event) {
  event.preventDefault();
  if (!document.body.dataset.ready) return;
  const guess = Number(new FormData(event.target).get("guess"));
  const vectors = runs.flatMap((run, i) => (run.manifest.attention ? [] : [i]));
  const chosen = vectors.length ? [...vectors, ...attending.slice(0, 1)] : runs.map((_, i) => i).slice(0, 3);
  query("#seen").replaceChildren();
  const shares = await measureShares(chosen);
  if (!shares) return;
  setStatus("All have been written.");
  const names = data.buckets.map((bucket) => bucket.name);
  const verdicts = chosen.map((run, i) => {
    const b = shares[i].findIndex((share) => share !== null && share < 50);
    return element("li", {}, `${runs[run].label}: ${b < 0 ? "half or more at every length" : `fewer than half from ${names[b]} on${b === guess ? ", as you guessed" : ""}`}.`);
  });
  const table = [["model", ...names], ...chosen.map((run, i) => [runs[run].label, ...shares[i].map((share) => (share === null ? "" : Number(share.toFixed(1))))])];
  query("#seen").replaceChildren(
    element("p", {}, `You guessed ${names[guess]}. Of the ${data.unit} of ${examples.length} references, in the same order, were written:`),
    element("ul", {}, ...verdicts), drawBars(chosen, shares, names, guess),
    element("p", { class: "note" }, element("a", { download: "guess.csv", href: csvAddress(table) }, "its numbers as CSV")));
  document.body.dataset.seen = String(turn);
}

function drawBars(chosen, shares, names, guess) {
  const width = 640, height = 240, left = 48, below = 44, step = (width - left) / names.length, wide = (step - 10) / chosen.length;
  const y = (share) => 10 + (height - below - 10) * (1 - share / 100);
  const svg = element("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": chosen.map((run, i) => `${runs[run].label}: ${shares[i].map((share, b) => (share === null ? "" : `${names[b]} ${share.toFixed(0)} %`)).join(", ")}`).join("; ") },
  element("rect", { class: "guess", x: left + step * guess, y: 10, width: step, height: height - below - 10 }));
  [0, 50, 100].forEach((share) => svg.append(element("line", { x1: left, x2: width, y1: y(share), y2: y(share) }),
    element("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, `${share} %`)));
  names.forEach((name, b) => {
    svg.append(element("text", { x: left + step * (b + 0.5), y: height - below + 16, "text-anchor": "middle" }, name));
    chosen.forEach((run, i) => shares[i][b] !== null && svg.append(element("rect", {
      x: left + step * b + 5 + wide * i, y: y(shares[i][b]), width: wide - 1, height: y(0) - y(shares[i][b]), fill: runs[run].colour })));
  });
  let x = left;
  chosen.forEach((run) => {
    svg.append(element("rect", { x, y: height - 16, width: 10, height: 10, fill: runs[run].colour }),
      element("text", { x: x + 14, y: height - 7 }, runs[run].label));
    x += 30 + 7.5 * runs[run].label.length;
  });
  return svg;
}

// -------------------------------------------------------------------------------- The page

function render() {
  const given = readAddress();
  const nextExample = given.text === undefined ? examples[parseIndex(given.e, examples.length)] : undefined;
  const next = given.text ?? nextExample?.src ?? "";
  if (next === text && nextExample === example && written.length) return drawAttention();
  [text, example] = [next, nextExample];
  return writeAll();
}

function move(changes) { // replaces the entry in the history
  const { e, text: typed, ...view } = readAddress();
  history.replaceState(null, "", "#" + new URLSearchParams({ ...view, ...changes }));
  render();
}

query("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = query("#text").value, index = examples.findIndex(({ src }) => src === typed);
  if (!document.body.dataset.ready) return;
  text = undefined; // the same text is written again
  move(index < 0 ? { text: typed } : { e: index });
});
query("#length")?.addEventListener("input", ({ target }) => document.body.dataset.ready && move({ e: target.value }));
query("#exercise")?.addEventListener("submit", runExercise);
start();
