// Sort the rows of the index by the words typed: a rare word counts more, and only its beginning must agree.
const COMMON = new Set("a an and are as at but by do does doesn don for from get give have i in is it its like my of on or s so t that the this to was what when while why with".split(" "));
const wordsOf = (text) => (text.toLowerCase().match(/[\p{L}\d]+/gu) ?? []).filter((word) => !COMMON.has(word));
const stem = (word) => word.replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");

/** Score rows by the words of a query: `texts` are the symptom and the rest of each row. */
export function rankRows(texts, query) {
  const rows = texts.map((parts) => parts.map((text) => wordsOf(text).map(stem)));
  const said = /(?<!\p{L})(\p{L}+) \1(?!\p{L})/u.test(query) ? `${query} repeats` : query; // the the the
  const asked = [...new Set(wordsOf(said).map(stem))].map((word) => {
    const has = (words) => words.includes(word) || (word.length > 3 && words.some((other) => other.startsWith(word)));
    const found = rows.map(([symptom, rest]) => (has(symptom) ? 1 : has(rest) ? 0.5 : 0));
    return { found, weight: Math.log(1 + rows.length / (1 + found.filter(Boolean).length)) };
  });
  return rows.map((_, i) => asked.reduce((sum, { found, weight }) => sum + found[i] * weight, 0));
}

if (document.getElementById("symptom")) {
  const box = /** @type {HTMLInputElement} */ (document.getElementById("symptom"));
  const body = /** @type {HTMLTableSectionElement} */ (document.querySelector("#index tbody")), rows = [...body.rows];
  box.addEventListener("input", () => {
    const scores = rankRows(rows.map(({ cells }) => [cells[0].textContent, cells[1].textContent + cells[2].textContent]), box.value);
    const order = rows.map((_, i) => i).sort((a, b) => scores[b] - scores[a] || a - b);
    for (const i of order) {
      rows[i].hidden = !scores[i] && Math.max(...scores) > 0;
      body.append(rows[i]);
    }
  });
}
