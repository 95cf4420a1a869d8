// As much of a browser as the scripts of the pages use; `given` holds the contents of elements by id.
class FakeElement {
  constructor(name) {
    Object.assign(this, { localName: name, attributes: {}, children: [], dataset: {}, listeners: {}, parts: {} });
  }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  addEventListener(type, listener) { this.listeners[type] = listener; }
  querySelector(selector) { return (this.parts[selector] ??= new FakeElement(selector)); }
  getContext() { return null; }
  contains() { return false; }
  get textContent() { return this.children.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.children = [text]; }
  all(name) {
    return this.children.flatMap((child) => (child instanceof FakeElement
      ? [...(child.localName === name ? [child] : []), ...child.all(name)] : []));
  }
}

const document = new FakeElement("document");
Object.assign(document, {
  body: new FakeElement("body"), createElement: (name) => new FakeElement(name),
  createElementNS: (_, name) => new FakeElement(name), querySelectorAll: () => [],
  getElementById: (id) => ({ textContent: given[id] }), parts: { "#data": { textContent: given.data } },
});
const location = { hash: "" }, history = { replaceState: (_, __, url) => { location.hash = url; } };
const addEventListener = () => {}, requestAnimationFrame = (draw) => setTimeout(draw);

class FormData {
  constructor(form) { this.form = form; }
  get(name) { return this.form[name]; }
}

async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}

// Runs worker.js in this thread.
class Worker {
  constructor() {
    const postMessage = (data) => this.onmessage({ data: structuredClone(data) });
    const script = `let onmessage; ${given.script}; return onmessage;`;
    this.receive = new Function("postMessage", script)(postMessage);
  }
  postMessage(data) { this.receive({ data }); }
}
