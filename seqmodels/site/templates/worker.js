// Runs exported models, all of them in turn, one token each, until every text is finished.
import * as ort from "onnxruntime-web/wasm";

const models = [];
let turn = 0; // a request ends the one before

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpacked(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The first bytes of all 16-bit numbers come first, then the second ones: they compress better.
function woven(planes) {
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

async function load({ wasm, runs }) {
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = await unpacked(wasm);
  for (const [i, { manifest, graphs, weights }] of runs.entries()) {
    const data = woven(await unpacked(weights));
    const options = { executionProviders: ["wasm"], externalData: [{ path: "weights.bin", data }] };
    models[i] = { manifest };
    for (const [name, graph] of Object.entries(graphs)) {
      models[i][name] = await ort.InferenceSession.create(await unpacked(graph), options);
    }
    postMessage({ loaded: i, sha256: await sha256(data) });
  }
}

const tokens = (ids) => new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);

// Greedy search takes the first of the largest logits, as torch does.
function chosen(logits, temperature, { EOS }) {
  let best = EOS; // before it are PAD and BOS, which never occur in a text
  for (let i = EOS; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  if (!temperature) return best;
  const weights = logits.slice(EOS).map((logit) => Math.exp((logit - logits[best]) / temperature));
  let left = Math.random() * weights.reduce((sum, weight) => sum + weight, 0);
  const found = weights.findIndex((weight) => (left -= weight) < 0);
  return found < 0 ? best : EOS + found;
}

class Text {
  constructor(job) {
    Object.assign(this, { prefix: [], temperature: 0, ...job });
    this.model = models[this.run];
    this.names = this.model.manifest.state.map((part) => part.name);
    this.written = [];
  }

  keep(found) {
    this.state = Object.fromEntries(this.names.map((name) => [name, found[`${name}'`]]));
  }

  async begin() {
    this.keep(await this.model.encode.run({ src: tokens(this.src) }));
  }

  get isFinished() {
    return this.written.length >= this.limit || this.written.at(-1) === this.model.manifest.ids.EOS;
  }

  // Write a token; return it, how long it took, and the weights of all layers and heads.
  async advance() {
    const { step, manifest } = this.model;
    const y = new ort.Tensor("int64", BigInt64Array.of(BigInt(this.written.at(-1) ?? manifest.ids.BOS)), [1]);
    const since = performance.now();
    const taken = step.inputNames.filter((name) => name !== "y").map((name) => [name, this.state[name]]);
    const found = await step.run({ y, ...Object.fromEntries(taken) });
    this.keep(found);
    const token = this.prefix[this.written.length]
      ?? chosen(found.logits.data, this.temperature, manifest.ids);
    this.written.push(token);
    return { token, ms: performance.now() - since, weights: found.attention && this.overSource(found.attention) };
  }

  overSource({ data, dims: [L, H, M] }) {
    const S = this.src.length, weights = new Float32Array(L * H * S);
    for (let i = 0; i < L * H; i++) weights.set(data.subarray(i * M, i * M + S), i * S);
    return weights;
  }

  // All weights at once, (layers, heads, tokens, source), where `step` has none.
  async attend() {
    const { attend, manifest } = this.model;
    const n = this.written.length - (this.written.at(-1) === manifest.ids.EOS ? 1 : 0);
    if (!attend || !n) return undefined;
    const read = [manifest.ids.BOS, ...this.written.slice(0, n - 1)];
    const { attention } = await attend.run({ src: tokens(this.src), tgt_in: tokens(read) });
    return { weights: attention.data, dims: attention.dims };
  }
}

// Lets messages in, which `await` alone does not.
function pause() {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); go(); };
    port2.postMessage(null);
  });
}

async function write(mine, jobs) {
  let texts = jobs.map((job) => new Text(job));
  for (const text of texts) await text.begin();
  while (texts.length) {
    for (const text of texts) {
      await pause();
      if (mine !== turn) return;
      const { token, ms, weights } = await text.advance();
      const isForced = text.written.length <= text.prefix.length;
      postMessage({ turn: mine, run: text.run, token, ms, weights, isForced }, weights ? [weights.buffer] : []);
      if (text.isFinished) postMessage({ turn: mine, run: text.run, finished: true, all: await text.attend() });
    }
    texts = texts.filter((text) => !text.isFinished);
  }
}

onmessage = async ({ data }) => {
  try {
    if (data.runs) return await load(data);
    turn = data.turn;
    await write(data.turn, data.jobs);
  } catch (error) {
    postMessage({ turn: data.turn, failed: String(error?.message ?? error) });
  }
};
