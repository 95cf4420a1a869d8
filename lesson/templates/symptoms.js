// Sort the rows of the index by the words typed: a rare word counts more, and only its beginning must agree.
const COMMON = new Set(`a all also am an and any are as at be but by can do does doesn don each epochs every for
  from get give got had have how i in into is it its just ll me my not of on or our s seem so some t that the then
  there these they this time times to very was we were what when where which while who why will with you your bad bug
  code data error example gets good help implement model poor problem produce pytorch question result results run runs
  system transformer translate translated translation trained work works wrong`.split(/\s+/));
const wordsOf = (text) => (text.toLowerCase().match(/[\p{L}\d]+/gu) ?? []).filter((word) => !COMMON.has(word));
const stem = (word) => word.replace(/ie[sd]$/, "y").replace(/z/g, "s").replace(/(?<=...)(?:ing|ed|es|s|e)$/, "");

/** Score rows by the words of a query: `texts` are the name, the other words and the rest of each row. */
export function rankRows(texts, query) {
  const rows = texts.map((parts) => parts.map((text) => wordsOf(text).map(stem)));
  const said = /(?<!\p{L})(\p{L}+(?: \p{L}+)?) \1(?!\p{L})/u.test(query) ? `${query} repeats` : query; // the the the
  const asked = [...new Set(wordsOf(said).map(stem))].map((word) => {
    const has = (words) => words.includes(word) || (word.length > 3 && words.some((other) => other.startsWith(word)));
    const found = rows.map((parts) => [1.5, 1, 0.5].find((_, i) => has(parts[i])) ?? 0);
    return { found, weight: Math.log(rows.length / found.filter(Boolean).length) ** 1.5 };
  });
  return rows.map((_, i) => asked.reduce((sum, { found, weight }) => sum + (found[i] && found[i] * weight), 0));
}

if (document.getElementById("symptom")) {
  const box = /** @type {HTMLInputElement} */ (document.getElementById("symptom"));
  const body = /** @type {HTMLTableSectionElement} */ (document.querySelector("#index tbody")), rows = [...body.rows];
  const texts = rows.map(({ cells }) => {
    const name = cells[0].querySelector("b")?.textContent ?? "";
    return [name, cells[0].textContent.slice(name.length), `${cells[1].textContent} ${cells[2].textContent}`];
  });
  box.addEventListener("input", () => {
    const scores = rankRows(texts, box.value), isFound = Math.max(...scores) > 0;
    const order = rows.map((_, i) => i).sort((a, b) => scores[b] - scores[a] || a - b);
    for (const i of order) {
      rows[i].hidden = isFound && !scores[i];
      body.append(rows[i]);
    }
    /** @type {HTMLElement} */ (document.getElementById("unknown")).hidden = isFound || !box.value.trim();
  });
}
