// Compute the tables of the page again when a weight changes.
const multiply = (A, B) => A.map((row) => B[0].map((_, j) => row.reduce((sum, a, i) => sum + a * B[i][j], 0)));
const transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));

function softmax(scores) {
  const largest = Math.max(...scores);
  const exps = scores.map((s) => Math.exp(s - largest)), sum = exps.reduce((a, b) => a + b);
  return exps.map((e) => e / sum);
}

function computeTables(X, { W_q, W_k, W_v }) {
  const [q, k, v] = [W_q, W_k, W_v].map((W) => multiply(X, W));
  const scores = multiply(q, transpose(k));
  const scaled = scores.map((row) => row.map((s) => s / Math.sqrt(q[0].length)));
  const masked = scaled.map((row, i) => row.map((s, j) => (j > i ? -Infinity : s)));
  const weights = scaled.map(softmax), causal = masked.map(softmax);
  return {
    q, k, v, scores, scaled, "weights-of": weights, means: multiply(weights, v),
    masked, causal, causal_means: multiply(causal, v),
  };
}

const format = (x) => (Number.isFinite(x) ? x.toFixed(2) : x < 0 ? "-∞" : "∞").replace("-", "−");
const within = (x) => (x < 0 ? `(${format(x)})` : format(x)); // a product

if (document.getElementById("weights")) {
  const form = document.getElementById("weights"), at = (id) => /** @type {HTMLInputElement} */ (document.getElementById(id));
  const rowsOf = (table, read) => [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1).map(read));
  const X = rowsOf(document.querySelector(".tables .numbers"), (cell) => Number(cell.textContent.replace("−", "-")));
  const update = () => {
    const [W_q, W_k, W_v] = [...form.querySelectorAll("table")].map((table) =>
      rowsOf(table, (cell) => /** @type {HTMLInputElement} */ (cell.firstChild).valueAsNumber || 0));
    const tables = computeTables(X, { W_q, W_k, W_v });
    for (const [id, rows] of Object.entries(tables)) {
      rowsOf(at(id), (cell) => cell).forEach((cells, i) => cells.forEach((cell, j) => {
        cell.textContent = format(rows[i][j]);
        if (cell.style.getPropertyValue("--w")) cell.style.setProperty("--w", rows[i][j].toFixed(2));
      }));
    }
    const { q, k, scores } = tables;
    const own = [tables["weights-of"][0][2], tables["weights-of"][5][6]];
    const n = rowsOf(form.querySelector("table"), (cell) => /** @type {HTMLInputElement} */ (cell.firstChild).valueAsNumber).flat().filter(Boolean).length;
    at("given").textContent = `The first “the” gives its noun ${Math.round(100 * own[0])} %, the second ${Math.round(100 * own[1])} %.${Math.min(...own) > 0.5 ? ` Done, with ${n} weights.` : ""}`;
    at("example").textContent = `${q[0].map((x, i) => `${within(x)} × ${within(k[2][i])}`).join(" + ")} = ${format(scores[0][2])}`;
  };
  for (const node of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".edit"))) node.hidden = false;
  for (const input of form.querySelectorAll("input")) input.disabled = false;
  at("empty").addEventListener("click", () => {
    for (const input of form.querySelector("table").querySelectorAll("input")) input.value = "0";
    update();
  });
  form.addEventListener("input", update);
  form.addEventListener("reset", () => setTimeout(update));
  form.addEventListener("submit", (event) => event.preventDefault());
}
