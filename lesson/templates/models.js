// The models of the live page: how they arrive, what they are asked, and what they have written.
import { query, unpack } from "./page.js";
import { makeTokenizer } from "./tokenizers.js";

export const data = JSON.parse(query("#data").textContent);
export const { runs } = data;
export const tokenizer = makeTokenizer(data.vocabulary);
const EOS = 2, BOS = 1;

// --------------------------------------------------------------------------------- Arrival

let worker, waiting = []; // messages to a worker that has not arrived
const send = (message) => { if (worker) worker.postMessage(message); else waiting.push(message); };

/** Start the worker; `onLoaded` gets the number of each model that is ready, `onFailed` a message,
 * `onArrived` the size of what has arrived of a file.
 * @param {(n: number) => void} [onArrived] */
export async function startWorker(part, onLoaded, onFailed, onArrived = () => {}) {
  const script = new Blob([await unpack(part)], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(script));
  worker.onmessage = ({ data: message }) => {
    if (message.loaded !== undefined) onLoaded(message.loaded, message.sha256);
    else if (message.arrived) onArrived(message.arrived);
    else if (message.failed && (message.turn === undefined || message.turn === turn)) onFailed(message.failed);
    else if (message.turn === turn) receive(message);
  };
  worker.onerror = (event) => onFailed(event.message);
  for (const message of waiting) worker.postMessage(message);
  waiting = [];
}

export const sendRuntime = (part) => send({ part });
export const sendModel = (i, part) => send({ part, load: i, manifest: runs[i].manifest, sizes: runs[i].sizes });

// -------------------------------------------------------------------------------- Requests

export let turn = 0;
/** @type {(message: any) => void} */
let receive = () => {};
/** @type {(isDone: boolean) => void} */
let finish = () => {};

/** Let models write texts; `onText` gets each message, with the number of its job.
 * @param {any[]} jobs those with a problem are left out
 * @param {(message: any) => void} onText
 * @returns {Promise<boolean>} true when all are finished, false if another request comes first */
export function requestTexts(jobs, onText) {
  finish(false);
  turn += 1;
  const numbered = jobs.map((job, i) => ({ ...job, job: i })).filter((job) => !job.problem);
  const open = new Set(numbered.map(({ job }) => job));
  return new Promise((resolve) => {
    finish = resolve;
    receive = (message) => {
      onText(message);
      if (message.finished) open.delete(message.job);
      if (!open.size) resolve(true);
    };
    send({ turn, jobs: numbered });
    if (!open.size) resolve(true);
  });
}

export function normalize(text) {
  const composed = (text.toWellFormed ? text.toWellFormed() : text).normalize("NFC");
  return data.case === "lower" ? composed.toLowerCase() : composed;
}
export const encode = (text) => tokenizer.encode(normalize(text));

/** A request to a model for the text that follows `text`, or the problem that prevents it.
 * @param {number} run
 * @param {string} text
 * @param {{ muted?: [number, number][], taken?: Record<number, number>, isShown?: boolean }} [changes]
 *   muted: attention and head; taken: tokens by their places, in place of the model's own; isShown:
 *   with the likeliest tokens, and the weights of all attentions */
export function makeJob(run, text, changes = {}) {
  const ids = encode(text), { max_tokens: most } = runs[run].manifest;
  const room = (n) => (most === null ? Infinity : most - n), common = { run, ...changes, temperature: Number(query("#temperature")?.value ?? 0) };
  if (data.continues === "prefix") {
    const limit = Math.min(ids.length + data.n_new, room(1), data.block ?? Infinity);
    return ids.length < limit ? { ...common, src: [BOS], prefix: ids, limit }
      : { run, problem: `reads at most ${limit - 1} tokens` };
  }
  const last = data.has_source_end && !data.continues ? [EOS] : [];
  const src = ids.length + last.length ? [...ids, ...last] : [BOS];
  const limit = Math.min(data.continues ? data.n_new : 2 * src.length + 10, room(src.length));
  return limit > 0 ? { ...common, src, limit } : { run, problem: `reads at most ${most - 1} tokens` };
}

/** The text that a model has written so far for a job. */
export class Output {
  constructor(job) {
    this.job = job;
    /** @type {number[]} */
    this.tokens = [];
    /** @type {Float32Array[]} of each token, (layers, heads, source) weights */
    this.rows = [];
    /** @type {[number, number][][]} of each token, the likeliest ones with their probabilities */
    this.tops = [];
    /** @type {{ weights: Float32Array, dims: number[] }[]} of each attention of several heads */
    this.maps = [];
    this.isFinished = Boolean(job.problem);
  }

  add({ token, top, weights, isForced, finished, all }) {
    if (finished) {
      this.isFinished = true;
      this.maps = all ?? [];
      const { graph, mask_rows: layers } = runs[this.job.run].manifest.attention ?? {}, { src, prefix = [] } = this.job;
      if (all && graph === "attend") this.rows = rowsOnSource(layers.map((i) => all[i]), src.length, prefix.length + this.tokens.length).slice(prefix.length);
      return;
    }
    if (isForced) return;
    this.tops.push(top);
    if (token === EOS) return;
    this.tokens.push(token);
    if (weights) this.rows.push(weights);
  }

  get text() { return this.job.problem ? "" : tokenizer.decode(this.tokens); }
}

/** One row of weights a token, (layers, heads, source) each, from the last n queries of each layer. */
export const rowsOnSource = (layers, nSource, n) => Array.from({ length: n }, (_, t) =>
  Float32Array.from(layers.flatMap(({ weights, dims: [H, Q, M] }) => Array.from({ length: H }, (_, h) => {
    const start = (h * Q + Q - n + t) * M;
    return [...weights.subarray(start, start + nSource)];
  })).flat()));
