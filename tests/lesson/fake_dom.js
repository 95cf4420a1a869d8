// As much of a browser as the scripts of the pages use. Of `given`, `html` is the page, `data` its data,
// `script` or `worker` what a worker runs, `hash` a part of its address; `moves`: motion is not reduced.
const VOID = ["br", "hr", "img", "input", "link", "meta"], FLAGS = ["checked", "disabled", "hidden", "open"];

class FakeStyle {
  constructor(text = "") { for (const part of text.split(";")) this.setProperty(...part.split(/:\s*/)); }
  setProperty(key, value) { this[key.trim()] = value; }
  getPropertyValue(key) { return this[key] ?? ""; }
}

const keyOfData = (key) => `data-${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

class FakeElement {
  constructor(name) {
    Object.assign(this, { localName: name, attributes: {}, childNodes: [], listeners: {}, parentElement: null, value: "" });
    this.dataset = new Proxy(this.attributes, {
      get: (all, key) => all[keyOfData(key)], set: (all, key, value) => { all[keyOfData(key)] = String(value); return true; },
    });
  }
  setAttribute(key, value) {
    this.attributes[key] = String(value);
    if (["href", "max", "name", "title", "type", "value", ...FLAGS].includes(key)) this[key] = FLAGS.includes(key) || String(value);
  }
  getAttribute(key) { return this.attributes[key] ?? null; }
  get id() { return this.attributes.id ?? ""; }
  get className() { return this.attributes.class ?? ""; }
  set className(names) { this.attributes.class = names; }
  get classList() {
    const names = new Set(this.className.split(" ").filter(Boolean)), keep = () => { this.className = [...names].join(" "); };
    const toggle = (name, isOn = !names.has(name)) => { names[isOn ? "add" : "delete"](name); keep(); };
    return { add: (name) => toggle(name, true), remove: (name) => toggle(name, false), toggle, contains: (name) => names.has(name) };
  }
  get style() { return (this.ownStyle ??= new FakeStyle(this.attributes.style)); }
  get valueAsNumber() { return Number(this.value); }

  get children() { return this.childNodes.filter((child) => child instanceof FakeElement); }
  get firstChild() { return this.childNodes[0] ?? null; }
  get firstElementChild() { return this.children[0] ?? null; }
  get lastElementChild() { return this.children.at(-1) ?? null; }
  get tBodies() { return this.children.filter(({ localName }) => localName === "tbody"); }
  get rows() { return this.children; }
  get cells() { return this.children; }
  get textContent() { return this.childNodes.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.replaceChildren(String(text)); }
  insert(at, nodes) {
    for (const node of nodes) { node.remove?.(); if (node instanceof FakeElement) node.parentElement = this; }
    this.childNodes.splice(at, 0, ...nodes);
  }
  get place() { return this.parentElement.childNodes.indexOf(this); }
  append(...nodes) { this.insert(Infinity, nodes); }
  prepend(...nodes) { this.insert(0, nodes); }
  replaceChildren(...nodes) { this.children.forEach((child) => child.remove()); this.childNodes = []; this.append(...nodes); }
  replaceWith(node) { this.parentElement.insert(this.place, [node]); this.remove(); }
  remove() { if (this.parentElement) this.parentElement.childNodes.splice(this.place, 1); this.parentElement = null; }

  contains(node) { return this === node || Boolean(node.parentElement && this.contains(node.parentElement)); }
  matches(selector) { return selector.split(/,\s*/).some((path) => fits(this, path.split(/\s+/))); }
  closest(selector) { return this.matches(selector) ? this : this.parentElement?.closest(selector) ?? null; }
  all(selector) { return this.children.flatMap((child) => [...(child.matches(selector) ? [child] : []), ...child.all(selector)]); }
  querySelectorAll(selector) { return this.all(selector); }
  querySelector(selector) { return this.all(selector)[0] ?? null; }

  addEventListener(type, listener) { (this.listeners[type] ??= []).push(listener); }
  focus() { document.activeElement = this; }
  select() {}
  scrollIntoView() {}
  getContext() { return null; }
  getBoundingClientRect() { return { left: 0, top: 0 }; }
}

// Whether an element is what a path of compound selectors leads to.
function fits(node, path) {
  const before = path.slice(0, -1);
  if (!node || !path.at(-1).match(/^(?:[\w-]+|\*)|[#.][\w-]+|\[[^\]]*\]|:not\(.*?\)/g)?.every((part) => fitsPart(node, part))) return false;
  if (before.at(-1) === ">") return fits(node.parentElement, before.slice(0, -1));
  for (let up = node.parentElement; up && before.length; up = up.parentElement) if (fits(up, before)) return true;
  return !before.length;
}

function fitsPart(node, part) {
  if (part[0] === "#") return node.id === part.slice(1);
  if (part[0] === ".") return node.classList.contains(part.slice(1));
  if (part[0] === ":") return !node.matches(part.slice(5, -1));
  if (part[0] !== "[") return part === "*" || node.localName === part;
  const [, key, sign, value] = part.match(/\[([\w-]+)(?:([*$]?=)"?([^"]*?)"?)?\]/), own = node.attributes[key];
  return own !== undefined && (!sign || (sign === "=" ? own === value : sign === "$=" ? own.endsWith(value) : own.includes(value)));
}

// Let what listens to events of an element, or of those that it is in, hear one.
function fire(node, type, extra = {}) {
  const event = { type, target: node, preventDefault() {}, ...extra };
  for (let at = node; at; at = at.parentElement) {
    at[`on${type}`]?.(event);
    for (const listener of at.listeners[type] ?? []) listener(event);
  }
}

function parse(html) {
  const open = [new FakeElement("body")];
  const add = (name, text, ...content) => {
    const node = new FakeElement(name);
    for (const [, key, , quoted, bare] of text.matchAll(/([\w-]+)(=(?:"([^"]*)"|([^\s"]+)))?/g)) node.setAttribute(key, quoted ?? bare ?? "");
    node.append(...content);
    open.at(-1).append(node);
    if (!VOID.includes(name) && !content.length) open.push(node);
  };
  const parts = /<script([^>]*)>([^]*?)<\/script>|<!.*?>|<\/([\w-]+)>|<([\w-]+)((?:[^">]|"[^"]*")*)>|([^<]+)/g;
  for (const [, own, script, end, name, attributes, text] of html.matchAll(parts)) {
    if (script !== undefined) add("script", own, script);
    else if (end) open.splice(open.findLastIndex(({ localName }) => localName === end));
    else if (name) add(name, attributes);
    else if (text) open.at(-1).append(text);
  }
  return open[0];
}

const document = new FakeElement("document");
document.append(parse((given.html ?? "") + (given.data ? `<script id="data">${given.data}</script>` : "")));
Object.assign(document, {
  body: document.firstElementChild, activeElement: document.firstElementChild, documentElement: new FakeElement("html"),
  createElement: (name) => new FakeElement(name), createElementNS: (_, name) => new FakeElement(name),
  getElementById: (id) => document.all(`#${id}`)[0] ?? null,
});
const location = { hash: given.hash ?? "", protocol: given.protocol ?? "https:", href: "file:///page.html" };
const history = { replaceState: (_, __, url) => { location.hash = url; } };
const addEventListener = (type, listener) => document.addEventListener(type, listener);
const requestAnimationFrame = (draw) => setTimeout(draw), matchMedia = () => ({ matches: !given.moves }), scrollTo = () => {};
const ticks = [], setInterval = (act, ms) => ticks.push(Object.assign(act, { ms })), clearInterval = (n) => { delete ticks[n - 1]; }; // a test makes them tick

class ResizeObserver { observe() {} }
class IntersectionObserver { // all is in sight
  constructor(act) { this.act = act; }
  observe() { this.act([{ isIntersecting: true }]); }
  disconnect() {}
}

async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}

// Runs the script of a worker in this thread.
class Worker {
  constructor() {
    const postMessage = (data) => this.onmessage({ data: structuredClone(data) });
    const script = `let onmessage; ${given.script}; return onmessage;`;
    this.receive = given.worker?.(postMessage) ?? new Function("postMessage", script)(postMessage);
  }
  postMessage(data) { this.receive({ data }); }
}
