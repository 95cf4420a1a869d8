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

/** Take the content of an element that has arrived out of the page. */
export function take(id) {
  const node = query(`#${id}`), content = node.textContent;
  node.remove();
  return content;
}

/** Start the worker; `onLoaded` gets the number of each model that is ready, `onFailed` a message. */
export async function startWorker(content, onLoaded, onFailed) {
  const script = new Blob([await unpack(content)], { type: "text/javascript" });
  worker = new Worker(URL.createObjectURL(script));
  worker.onmessage = ({ data: message }) => {
    if (message.loaded !== undefined) onLoaded(message.loaded, message.sha256);
    else if (message.failed && (message.turn === undefined || message.turn === turn)) onFailed(message.failed);
    else if (message.turn === turn) receive(message);
  };
  worker.onerror = (event) => onFailed(event.message);
  for (const message of waiting) worker.postMessage(message);
  waiting = [];
}

export const sendRuntime = (wasm) => send({ wasm });

/** Load a model from its weights and graphs. */
export function sendModel(i, { weights, ...graphs }) {
  send({ load: i, manifest: runs[i].manifest, weights, graphs });
}

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
const readTemperature = () => Number(query("#temperature")?.value ?? 0);

/** A request to a model for the text that follows `text`, or the problem that prevents it.
 * @param {number} run
 * @param {string} text
 * @param {[number, number][]} muted heads that are muted: attention and head */
export function makeJob(run, text, muted = []) {
  const ids = encode(text), { max_tokens: most } = runs[run].manifest;
  const room = (n) => (most === null ? Infinity : most - n), common = { run, muted, temperature: readTemperature() };
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
    this.isFinished = Boolean(job.problem);
  }

  add({ token, weights, isForced, finished, all }) {
    if (finished) {
      this.isFinished = true;
      if (all) this.rows = splitRows(all).slice(this.job.prefix?.length ?? 0);
      return;
    }
    if (isForced || token === EOS) return;
    this.tokens.push(token);
    if (weights) this.rows.push(weights);
  }

  get text() { return this.job.problem ? "" : tokenizer.decode(this.tokens); }
}

/** One row of weights a token, (layers, heads, source) each, from (layers, heads, tokens, source). */
export function splitRows({ weights, dims: [L, H, T, S] }) {
  return Array.from({ length: T }, (_, t) => {
    const row = new Float32Array(L * H * S);
    for (let i = 0; i < L * H; i++) row.set(weights.subarray((i * T + t) * S, (i * T + t + 1) * S), i * S);
    return row;
  });
}
