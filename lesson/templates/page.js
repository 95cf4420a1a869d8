// What the scripts of pages share. A page's state is its address.

/** @returns {Record<string, string>} */
export const readAddress = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
export const addressWith = (changes) => "#" + new URLSearchParams({ ...readAddress(), ...changes });
export const changeAddress = (changes) => { location.hash = addressWith(changes); };

/** Look up an element that the page has.
 * @returns {any} */
export const query = (selector) => document.querySelector(selector);

/** Make an element of HTML or SVG.
 * @param {string} name
 * @param {Record<string, any>} [attributes] undefined and null: without the attribute
 * @param {...(Node | string)} children
 * @returns {any} */
export function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "circle", "line", "polyline", "text"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

export const link = (text, changes, current) =>
  element("a", { href: addressWith(changes), "aria-current": current ? "true" : undefined }, text);

/** Make a drop-down list that sets a key of the address. */
export function chooser(label, key, options, chosen) {
  const select = element("select", { "data-key": key },
    ...options.map(([value, text]) => element("option", { value }, text)));
  select.value = chosen;
  select.addEventListener("change", () => changeAddress({ [key]: select.value }));
  return element("label", {}, label, select);
}

/** Read a whole number from 0 up to n, or take `otherwise`. */
export function parseIndex(value, n, otherwise = 0) {
  const number = Number(value);
  return value !== "" && Number.isInteger(number) && number >= 0 && number < n ? number : otherwise;
}

/** Replace the content of a section, but keep the focus. */
export function redraw(root, ...children) {
  const now = /** @type {HTMLElement} */ (document.activeElement), key = root.contains(now) && now.dataset.key;
  root.replaceChildren(...children);
  if (key) root.querySelector(`[data-key="${key}"]`)?.focus({ preventScroll: true });
}

/** Make the children of an element equal to a list, leaving those that are already in their place.
 * @template T
 * @param {any} root
 * @param {T[]} items
 * @param {(item: T) => string} keyOf items with the same key look the same
 * @param {(item: T) => any} make */
export function patch(root, items, keyOf, make) {
  items.forEach((item, i) => {
    const key = keyOf(item), old = root.children[i];
    if (old?.dataset.key === key) return;
    const node = make(item);
    node.dataset.key = key;
    if (old) old.replaceWith(node); else root.append(node);
  });
  while (root.children.length > items.length) root.lastElementChild.remove();
}

/** The content of a part of a page, which is compressed with gzip: base64 in the page, or a file.
 * @param {{ base64?: string, address?: string }} part
 * @param {(n: number) => void} [onBytes] gets the size of each piece of a file that arrives */
export async function unpack({ base64 = "", address }, onBytes = () => {}) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const packed = address ? await fetch(address) : new Response(bytes);
  if (!packed.ok) throw new Error(`${address} was not found`);
  const counting = new TransformStream({ transform: (piece, to) => { onBytes(piece.length); to.enqueue(piece); } });
  return new Response(packed.body.pipeThrough(counting).pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** A part of a page: its file, or what an element that has arrived holds, which is taken out.
 * @param {Record<string, string>} files */
export function take(id, files) {
  if (files[id]) return { address: new URL(files[id], location.href).href };
  const node = query(`#${id}`), base64 = node.textContent;
  node.remove();
  return { base64 };
}

export const isUnserved = (files) => location.protocol === "file:" && Boolean(files.worker);

/** Say in place of the page why its models cannot run. */
export function showFailure(message, files) {
  query("#failed").hidden = false;
  query("#served").hidden = !isUnserved(files);
  query("#why").textContent = message;
  query("main").classList.add("failed");
}

/** The address of a table as a file.
 * @param {(string | number)[][]} rows */
export const csvAddress = (rows) => "data:text/csv;charset=utf-8," + encodeURIComponent(rows.map((row) =>
  row.map((cell) => (typeof cell === "number" ? cell : `"${cell.replaceAll('"', '""')}"`)).join(",")).join("\n"));
