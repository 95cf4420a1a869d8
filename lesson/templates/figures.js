// Each figure of the page as a file of its own: its drawing by day, between its texts.
import { element } from "./page.js";

const DAY = [...document.querySelectorAll(".plot style")].map(({ textContent }) => textContent.replaceAll(/light-dark\((#\w+),#\w+\)/g, "$1")).join("");
const LINE = 14, WIDTH = 684; // from one line of a text to the next, and of most figures, in points

/** The lines of a text, of up to about n characters each. @param {string} text @param {number} n */
const wrap = (text, n) => text.split("\n").flatMap((line) => line.match(new RegExp(`\\S.{0,${Math.round(n)}}(?=\\s|$)`, "g")) ?? []);

/** The file of a figure. @param {Element} figure */
function drawFile(figure) {
  const drawn = figure.querySelector(".plot svg"), [left, top, width, height] = drawn.getAttribute("viewBox").split(" ").map(Number);
  const [title, about, caption] = [[".title", 80], [".title + .note", 115], [".plot + .note", 140]].map(([path, n]) =>
    wrap(/** @type {HTMLElement | null} */ (figure.querySelector(String(path)))?.innerText ?? "", (Number(n) * width) / WIDTH));
  const write = (lines, y, look) => lines.map((line, i) => element("text", { x: left + 8, y: y + LINE * i, fill: "#222", ...look }, line));
  const first = top - LINE * (title.length + about.length), whole = height + LINE * (title.length + about.length + caption.length + 2);
  const style = 'background: #fff; font-family: "DejaVu Sans", Verdana, sans-serif; stroke-linejoin: round';
  const file = element("svg", { viewBox: [left, first - LINE, width, whole].join(" "), width, height: whole, style }, ...drawn.cloneNode(true).childNodes,
    ...write(title, first, { "font-size": 12.5, "font-weight": "bold" }), ...write(about, first + LINE * title.length, { "font-size": 9.5 }), ...write(caption, top + height + LINE, { "font-size": 8.5 }));
  for (const node of file.querySelectorAll("[class]")) node.setAttribute("style", DAY.match(new RegExp(`\\.${node.getAttribute("class")}\\{([^}]*)\\}`))[1]);
  return new XMLSerializer().serializeToString(file);
}

for (const figure of document.querySelectorAll("figure[id]:has(.plot)")) {
  const link = element("a", { href: `#${figure.id}`, download: `${figure.id}.svg` }, "the figure as SVG");
  link.addEventListener("click", () => { link.href = URL.createObjectURL(new Blob([drawFile(figure)], { type: "image/svg+xml" })); });
  figure.querySelector("figcaption").lastElementChild.after(", ", link);
}
