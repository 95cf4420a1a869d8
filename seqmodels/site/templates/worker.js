// Runs exported models, all of them in turn, one token each, until every text is finished.
import * as ort from "onnxruntime-web/wasm";

const models = [];
let turn = 0; // a request ends the one before

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpack(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

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

async function load({ wasm, runs }) {
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = await unpack(wasm);
  for (const [i, { manifest, graphs, weights }] of runs.entries()) {
    const data = interleave(await unpack(weights));
    const options = { executionProviders: ["wasm"], externalData: [{ path: "weights.bin", data }] };
    models[i] = { manifest };
    for (const [name, graph] of Object.entries(graphs)) {
      models[i][name] = await ort.InferenceSession.create(await unpack(graph), options);
    }
    postMessage({ loaded: i, sha256: await sha256(data) });
  }
}

const tensorOf = (ids) => new ort.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);

// Greedy search takes the first of the largest logits, as torch does.
function chooseToken(logits, temperature, { EOS }) {
  let best = EOS; // before it are PAD and BOS, which never occur in a text
  for (let i = EOS; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  if (!temperature) return best;
  const weights = logits.slice(EOS).map((logit) => Math.exp((logit - logits[best]) / temperature));
  let left = Math.random() * weights.reduce((sum, weight) => sum + weight, 0);
  const index = weights.findIndex((weight) => (left -= weight) < 0);
  return index < 0 ? best : EOS + index;
}

class Text {
  constructor(job) {
    Object.assign(this, { prefix: [], temperature: 0, ...job });
    this.model = models[this.run];
    this.names = this.model.manifest.state.map((part) => part.name);
    this.written = [];
  }

  storeState(outputs) {
    this.state = Object.fromEntries(this.names.map((name) => [name, outputs[`${name}'`]]));
  }

  async begin() {
    this.storeState(await this.model.encode.run({ src: tensorOf(this.src) }));
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
    const outputs = await step.run({ y, ...Object.fromEntries(taken) });
    this.storeState(outputs);
    const token = this.prefix[this.written.length]
      ?? chooseToken(outputs.logits.data, this.temperature, manifest.ids);
    this.written.push(token);
    return { token, ms: performance.now() - since, weights: outputs.attention && this.sourceWeights(outputs.attention) };
  }

  sourceWeights({ data, dims: [L, H, M] }) {
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
    const { attention } = await attend.run({ src: tensorOf(this.src), tgt_in: tensorOf(read) });
    return { weights: attention.data, dims: attention.dims };
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
  for (const text of texts) await text.begin();
  while (texts.length) {
    for (const text of texts) {
      await letMessagesIn();
      if (ownTurn !== turn) return;
      const { token, ms, weights } = await text.advance();
      const isForced = text.written.length <= text.prefix.length;
      postMessage({ turn: ownTurn, run: text.run, token, ms, weights, isForced }, weights ? [weights.buffer] : []);
      if (text.isFinished) postMessage({ turn: ownTurn, run: text.run, finished: true, all: await text.attend() });
    }
    texts = texts.filter((text) => !text.isFinished);
  }
}

onmessage = async ({ data }) => {
  try {
    if (data.runs) return await load(data);
    turn = data.turn;
    await writeAll(data.turn, data.jobs);
  } catch (error) {
    postMessage({ turn: data.turn, failed: String(error?.message ?? error) });
  }
};
