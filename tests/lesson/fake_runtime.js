// Stands in for onnxruntime-web: models that copy their source, and stop after `n` tokens if given.
// A muted head stops the text after as many tokens as there are heads before it.
// A graph is JSON such as {"part": "step", "n": 2, "shape": [2, 3]}, the shape being layers and heads.
const ort = {
  env: { wasm: {} },
  Tensor: class { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } },
  InferenceSession: { create: async (bytes) => makeSession(JSON.parse(new TextDecoder().decode(bytes))) },
};

function makeSession({ part, n, shape }) {
  const run = {
    encode: ({ src }) => ({ "h'": src, "i'": 0 }),
    step: ({ y, h, i, head_mask: mask }) => {
      const ids = Array.from(h.data, Number), S = ids.length, expected = i ? ids[i - 1] : 1;
      const token = Number(y.data[0]) !== expected ? 3 : ids[i] === undefined || i === n || mask?.data[i] === 0 ? 2 : ids[i];
      const logits = { data: Float32Array.from({ length: 2000 }, (_, id) => (id < 2 ? 9 : id === Math.max(2, token) ? 50 : 0)) };
      // of weights that are over the source and over what is written
      const attention = shape && { dims: [...shape, S + i], data: weights([...shape, S + i]) };
      return { logits, "h'": h, "i'": i + 1, attention };
    },
    attend: ({ src, tgt_in: tgt }) => { // one text to itself, source and target
      const text = [...src.data, ...tgt.data], n = text.length, dims = [shape[1], n, n], size = shape[1] * n * n;
      const all = weights([shape[0], ...dims]).map((weight, k) => weight + 10 * Number(text[Math.floor(k / n) % n]));
      return Object.fromEntries(Array.from({ length: shape[0] }, (_, i) => [`w${i}`, { dims, data: all.slice(i * size, (i + 1) * size) }]));
    },
  }[part];
  return { inputNames: { encode: ["src"], step: ["y", "h", "i", "head_mask"], attend: ["src", "tgt_in"] }[part], run: async (feeds) => run(feeds) };
}

// A different weight at each place: 0.001 × its column + 0.01 × its row + …, all counted from 1. `attend`
// adds 10 × the token of the row.
function weights(dims) {
  const size = dims.reduce((product, n) => product * n, 1);
  return Float32Array.from({ length: size }, (_, k) => {
    let weight = 0;
    for (let axis = dims.length - 1, scale = 1e-3; axis >= 0; axis -= 1, scale *= 10) {
      weight += scale * (1 + (k % dims[axis]));
      k = Math.floor(k / dims[axis]);
    }
    return weight;
  });
}
