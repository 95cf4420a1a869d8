// Runs exported models, all of them in turn, one token each, until every text is finished. A text
// waits until its model has arrived. Or trains models, a step of each in turn.
import * as ort from "onnxruntime-web/wasm";
import { unpack } from "./page.js";

const models = [];
let turn = 0; // a request ends the one before

// The first bytes of all 16-bit numbers come first, then the second ones: they compress better.
function interleave(planes) {
  const half = planes.length / 2, bytes = new Uint8Array(planes.length);
  for (let i = 0; i < half; i++) {
    bytes[2 * i] = planes[i];
    bytes[2 * i + 1] = planes[half + i];
  }
  return bytes;
}

async function sha256(bytes) {
  if (!globalThis.crypto?.subtle) return null;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Parts arrive in their order, one at a time, and are loaded while others arrive.
/** @type {Promise<any>} */
let arriving = Promise.resolve();
let loading = Promise.resolve(), isLoaded = () => {};

async function load({ part, load: i, manifest, sizes }) {
  const content = arriving.then(() => unpack(part, (n) => postMessage({ arrived: n })));
  arriving = content;
  loading = loading.then(async () => (i === undefined ? start(await content) : open(i, manifest, sizes, await content)));
  return loading;
}

function start(wasm) {
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = wasm;
}

async function open(i, manifest, sizes, content) {
  const files = {};
  let start = 0;
  for (const [name, size] of sizes) {
    files[name] = new Uint8Array(content.slice(start, start + size));
    start += size;
  }
  const data = interleave(files.weights);
  const options = { executionProviders: ["wasm"], externalData: [{ path: "weights.bin", data }] };
  const open = async (name) => ort.InferenceSession.create(files[name], options);
  models[i] = { manifest, encode: await open("encode"), step: await open("step"), open };
  postMessage({ loaded: i, sha256: await sha256(data) });
  isLoaded();
}

const tensorOf = (ids) => new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);

// Greedy search takes the first of the largest logits, as torch does.
function chooseToken(logits, temperature, { EOS }) {
  let best = EOS; // before it are PAD and BOS, which never occur in a text
  for (let i = EOS; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  if (!temperature) return best;
  const weights = logits.slice(EOS).map((logit) => Math.exp((logit - logits[best]) / temperature));
  let left = Math.random() * weights.reduce((sum, weight) => sum + weight, 0);
  const index = weights.findIndex((weight) => {
    left -= weight;
    return left < 0;
  });
  return index < 0 ? best : EOS + index;
}

const N_TOP = 5;

// The likeliest tokens and their probabilities.
function rankTokens(logits, { EOS }) {
  const ids = Array.from(logits.subarray(EOS), (_, i) => EOS + i).sort((a, b) => logits[b] - logits[a] || a - b);
  const sum = ids.reduce((total, id) => total + Math.exp(logits[id] - logits[ids[0]]), 0);
  return ids.slice(0, N_TOP).map((id) => [id, Math.exp(logits[id] - logits[ids[0]]) / sum]);
}

class Text {
  constructor(job) {
    // of models.js, with its number in the request
    this.job = { prefix: [], temperature: 0, muted: [], taken: {}, ...job };
    this.written = [];
  }

  storeState(outputs) {
    this.state = Object.fromEntries(this.names.map((name) => [name, outputs[`${name}'`]]));
  }

  async begin() {
    this.model = models[this.job.run];
    const { state, heads } = this.model.manifest;
    this.names = state.map((part) => part.name);
    if (heads) {
      const [n, each] = [heads.attentions.length, heads.n];
      const mask = new Float32Array(n * each).fill(1);
      for (const [attention, head] of this.job.muted) mask[attention * each + head] = 0;
      this.mask = new ort.Tensor("float32", mask, [n, each]);
    }
    this.storeState(await this.compute("encode", { src: tensorOf(this.job.src) }));
  }

  // Run a graph on those of these inputs that it takes.
  compute(name, given) {
    const graph = this.model[name], all = { ...given, head_mask: this.mask };
    return graph.run(Object.fromEntries(graph.inputNames.map((input) => [input, all[input]])));
  }

  get isFinished() {
    return this.written.length >= this.job.limit || (this.written.length > 0 && this.written.at(-1) === this.model.manifest.ids.EOS);
  }

  // Write a token; return it and the weights of all layers and heads.
  async advance() {
    const { manifest } = this.model;
    const y = new ort.Tensor("int64", BigInt64Array.of(BigInt(this.written.at(-1) ?? manifest.ids.BOS)), [1]);
    const outputs = await this.compute("step", { ...this.state, y });
    this.storeState(outputs);
    const place = this.written.length, { data: logits } = outputs.logits;
    const token = this.job.prefix[place] ?? this.job.taken[place] ?? chooseToken(logits, this.job.temperature, manifest.ids);
    this.written.push(token);
    const top = this.job.isShown ? rankTokens(logits, manifest.ids) : undefined;
    return { token, top, weights: outputs.attention && this.sourceWeights(outputs.attention) };
  }

  sourceWeights({ data, dims: [L, H, M] }) {
    const S = this.job.src.length, weights = new Float32Array(L * H * S);
    for (let i = 0; i < L * H; i++) weights.set(data.subarray(i * M, i * M + S), i * S);
    return weights;
  }

  // The weights of each attention of several heads, (heads, queries, keys).
  async attend() {
    const { ids, heads } = this.model.manifest;
    const n = this.written.length - (this.written.at(-1) === ids.EOS ? 1 : 0);
    if (!heads || !n || !this.job.isShown) return undefined;
    this.model.attend ??= await this.model.open("attend");
    const read = [ids.BOS, ...this.written.slice(0, n - 1)];
    const maps = await this.compute("attend", { src: tensorOf(this.job.src), tgt_in: tensorOf(read) });
    return heads.attentions.map((_, i) => ({ weights: maps[`w${i}`].data, dims: maps[`w${i}`].dims }));
  }
}

// Lets messages in, which `await` alone does not.
function letMessagesIn() {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); go(); };
    port2.postMessage(null);
  });
}

async function writeAll(ownTurn, jobs) {
  let texts = jobs.map((job) => new Text(job));
  while (texts.length) {
    const ready = texts.filter((text) => models[text.job.run]); // others wait for their model
    if (!ready.length) await new Promise((go) => { isLoaded = () => go(); });
    for (const text of ready) {
      await letMessagesIn();
      if (ownTurn !== turn) return;
      if (!text.model) await text.begin();
      const { token, top, weights } = await text.advance();
      const { job, prefix } = text.job, isForced = text.written.length <= prefix.length;
      postMessage({ turn: ownTurn, job, token, top, weights, isForced }, { transfer: weights ? [weights.buffer] : [] });
      if (text.isFinished) postMessage({ turn: ownTurn, job, finished: true, all: await text.attend() });
    }
    if (ownTurn !== turn) return;
    texts = texts.filter((text) => !text.isFinished);
  }
}

// -------------------------------------------------------------------------------- Training

const trainers = [], STATE = ["theta", "m", "v", "t"];

async function loadTrainer({ train: i, theta, graph }) {
  const first = new Float32Array(await unpack(theta));
  trainers[i] = { first, graph: await ort.InferenceSession.create(new Uint8Array(await unpack(graph)), { executionProviders: ["wasm"], graphOptimizationLevel: "disabled" }) };
  postMessage({ loaded: i });
}

// Take a step of each model on the same batch; the first step begins with the initial weights.
async function takeStep({ src, tgt, pairs, isFirst }) {
  const steps = [];
  const tensor = (ids) => new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [pairs, ids.length / pairs]);
  for (const trainer of trainers) {
    const { first } = trainer, zeros = () => new ort.Tensor("float32", new Float32Array(first.length), [first.length]);
    if (isFirst) {
      const t = new ort.Tensor("float32", new Float32Array(1), []);
      trainer.state = { theta: new ort.Tensor("float32", first.slice(), [first.length]), m: zeros(), v: zeros(), t };
    }
    const outputs = await trainer.graph.run({ ...trainer.state, src: tensor(src), tgt: tensor(tgt) });
    trainer.state = Object.fromEntries(STATE.map((name) => [name, outputs[`${name}'`]]));
    steps.push({ loss: outputs.loss.data[0], best: outputs.best.data });
  }
  postMessage({ steps });
}

onmessage = async ({ data }) => {
  try {
    if (data.part) return await load(data);
    if (data.theta) loading = loading.then(() => loadTrainer(data));
    else if (data.src) loading = loading.then(() => takeStep(data));
    else turn = data.turn;
    await (data.turn === undefined ? loading : writeAll(turn, data.jobs));
  } catch (error) {
    postMessage({ turn: data.turn, failed: error instanceof Error ? error.message : String(error) });
  }
};
