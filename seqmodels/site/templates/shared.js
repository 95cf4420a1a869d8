"use strict";
// What the scripts of all pages share.
const read = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const at = (changes) => "#" + new URLSearchParams({ ...read(), ...changes });
const go = (changes) => { location.hash = at(changes); };

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const link = (text, changes, current) =>
  element("a", { href: at(changes), "aria-current": current ? "true" : undefined }, text);

function chooser(label, key, options, chosen) {
  const select = element("select", { "data-key": key },
    ...options.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => go({ [key]: select.value }));
  return element("label", {}, label, select);
}

function within(value, n, otherwise = 0) {
  const number = Number(value);
  return Number.isInteger(number) && number >= 0 && number < n ? number : otherwise;
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// Which words of a text are in its longest common subsequence with the reference.
function right(words, reference) {
  const n = words.length, m = reference.length;
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      best[i][j] = words[i] === reference[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const is = new Array(n).fill(false);
  for (let i = 0, j = 0; i < n && j < m;) {
    if (words[i] === reference[j]) { is[i] = true; i++; j++; }
    else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return is;
}

const split = (text) => text.split(/\s+/).filter(Boolean);

function marked(hyp, ref) {
  const words = split(hyp);
  const is = right(words, split(ref));
  return words.flatMap((word, i) => [i ? " " : "", is[i] ? word : element("mark", {}, word)]);
}

function drawn(map, weights, label) {
  const cell = 18, columns = map.src.length;
  const longest = (words) => Math.max(...words.map((word) => [...word].length));
  const left = 8 + 7.5 * longest(map.tgt), above = 8 + 7.5 * longest(map.src.map((word) => word || "the target"));
  const width = left + cell * columns + 8, height = above + cell * map.tgt.length + 8;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": `${label}: ${map.tgt.length} target tokens attend to ${columns} source tokens` });
  map.src.forEach((word, s) => svg.append(element("text",
    { transform: `translate(${left + cell * (s + 0.7)} ${above - 5}) rotate(-90)`, "font-style": word ? undefined : "italic" },
    word || "the target")));
  map.tgt.forEach((word, t) => svg.append(element("text",
    { x: left - 5, y: above + cell * (t + 0.72), "text-anchor": "end" }, word)));
  weights.forEach((weight, i) => {
    if (weight < 0.004) return;
    const s = i % columns, t = Math.floor(i / columns);
    svg.append(element("rect", { class: "cell", x: left + cell * s, y: above + cell * t, width: cell, height: cell,
      "fill-opacity": weight.toFixed(3) },
      element("title", {}, `${map.tgt[t]} → ${map.src[s] || "the target"}: ${weight.toFixed(3)}`)));
  });
  svg.append(element("rect", { class: "frame", x: left, y: above, width: cell * columns, height: cell * map.tgt.length }));
  return element("div", { class: "map wide", tabindex: "0", role: "region", "aria-label": "attention map" }, svg,
    element("p", { class: "note" }, "Rows: target tokens, as they are written. Columns: source tokens. The stronger the colour, the larger the weight."));
}
