// Sentences that are built: main clauses of the test set, joined as its grammar joins them.
import { countWords } from "./differences.js";
import { element, query } from "./page.js";

const MOST_WORDS = 12; // of a clause that is offered

/** @typedef {{ x: number, src: string, ref: string }} Example x: its place on the slider */

/** Join two sentences; the second begins small if its first word is also known so.
 * @param {Set<string>} known */
function joinTexts(one, join, other, known) {
  const small = other[0].toLowerCase() + other.slice(1);
  return `${one.replace(/\.$/, "")}, ${join} ${known.has(small.split(/[\s,.]/)[0]) ? small : other}`;
}

/** The sentence of an address such as "4.0,and.5.2": which clause of which length, and how it is joined.
 * @param {string} address
 * @param {Example[]} examples
 * @param {Record<string, string>} joins in both languages
 * @param {Set<string>} known the words of the vocabulary
 * @returns {Example | undefined} undefined: the address names none */
export function buildExample(address, examples, joins, known) {
  /** @type {Example | undefined} */
  let built;
  for (const part of address.split(",")) {
    const [i, w, join] = part.split(".").reverse(), clause = examples.filter(({ x }) => x === Number(w))[Number(i)];
    if (!clause || (built && !Object.hasOwn(joins, join))) return undefined;
    const src = built ? joinTexts(built.src, join, clause.src, known) : clause.src;
    built = { src, ref: built ? joinTexts(built.ref, joins[join], clause.ref, known) : clause.ref, x: countWords(src) };
  }
  return built;
}

/** Set up the form in which a sentence is built.
 * @param {Example[]} examples
 * @param {() => string} current the address of the sentence that is built so far
 * @param {(address: string) => void} show
 * @returns {() => void} what to call when another sentence is built */
export function setUpBuilder(examples, current, show) {
  const form = query("#build"), list = query("#clause");
  const name = (example) => `${example.x}.${examples.filter(({ x }) => x === example.x).indexOf(example)}`;
  const update = () => {
    const wanted = query("#with").value.toLowerCase().split(/\s+/).filter(Boolean);
    const its = examples.filter(({ x, src }) => x <= MOST_WORDS && wanted.every((word) => src.toLowerCase().split(/[\s,.]+/).some((own) => own.startsWith(word))));
    list.replaceChildren(...its.map((example) => element("option", { value: name(example) }, example.src)));
    query("#found").textContent = its.length ? `${its.length} to choose from` : "no short clause has it";
    for (const button of form.querySelectorAll("button")) button.disabled = (button.name && !its.length) || (button.value && !current());
  };
  query("#with").addEventListener("input", update);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { value: join } = event.submitter, before = current();
    if (join === "shorter") show(before.split(",").slice(0, -1).join(","));
    else show(join ? `${before},${join}.${list.value}` : list.value);
  });
  return update;
}
