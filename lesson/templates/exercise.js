// "Guess, then see": from which length on a model has fewer than half of the words right.
import { countRight } from "./differences.js";
import { Output, data, makeJob, requestTexts, runs } from "./models.js";
import { csvAddress, element, query } from "./page.js";

/** The examples of each bucket, at most `n`, spread over its lengths. */
export const sampleBuckets = (examples, buckets, n) => buckets.map(({ low, high }) => {
  const inside = examples.filter(({ x }) => x >= low && x <= high), size = Math.min(n, inside.length);
  return Array.from({ length: size }, (_, i) => inside[Math.floor((i * inside.length) / size)]);
});

/** The share of words that each model has right, of the longer of output and reference, in per cent, by bucket. */
async function measureShares(chosen, byBucket, say) {
  const shares = chosen.map(() => byBucket.map(() => null)), total = byBucket.flat().length;
  let n = 0;
  for (const [b, examples] of byBucket.entries()) {
    const sums = chosen.map(() => ({ right: 0, words: 0 }));
    for (const { src, ref } of examples) {
      const texts = chosen.map((run) => new Output(makeJob(run, src)));
      const isDone = await requestTexts(texts.map(({ job }) => job), (message) => texts[message.job].add(message));
      if (!isDone) return null;
      say(`${++n} of ${total} ${data.noun} are written …`);
      texts.forEach(({ text }, i) => {
        const { right, words } = countRight(text, ref);
        sums[i].right += right;
        sums[i].words += words;
      });
    }
    sums.forEach(({ right, words }, i) => { shares[i][b] = words ? (100 * right) / words : null; });
  }
  return shares;
}

/** Run the exercise on three models: all with one vector, then others. */
export async function runExercise(event, examples) {
  event.preventDefault();
  const guess = Number(new FormData(event.target).get("guess")), names = data.buckets.map(({ name }) => name);
  const order = [...runs.keys()].sort((i, j) => Number(runs[j].is_vector) - Number(runs[i].is_vector) || i - j);
  const vectors = runs.filter((run) => run.is_vector).length, chosen = order.slice(0, vectors ? vectors + 1 : 3);
  const say = (message) => { query("#answer").textContent = message; };
  query("#seen").replaceChildren();
  say("The models are writing …");
  const byBucket = sampleBuckets(examples, data.buckets, data.per_bucket);
  const shares = await measureShares(chosen, byBucket, say);
  if (!shares) return say("Stopped, because the models were asked for something else. See again?");
  const verdicts = chosen.map((run, i) => {
    const b = shares[i].findIndex((share) => share !== null && share < 50);
    const reply = b < 0 || !runs[run].is_vector ? "" : b === guess ? ", as you guessed" : b < guess ? ", earlier than you guessed" : ", later than you guessed";
    return [runs[run].label, b < 0 ? "half or more at every length" : `fewer than half from ${names[b]} on${reply}`];
  });
  say(`You guessed ${names[guess]}. ${verdicts.map((verdict) => verdict.join(": ")).join("; ")}.`);
  const cell = (share) => (share === null ? "" : Number(share.toFixed(1)));
  const table = [["model", ...names], ...chosen.map((run, i) => [runs[run].label, ...shares[i].map(cell)])];
  query("#seen").replaceChildren(
    element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "shares by length" }, drawBars(chosen, shares, names, guess)),
    element("p", { class: "note" }, `Share of the ${data.unit} of ${byBucket.flat().length} references that were written in their order: `,
      element("a", { download: "guess.csv", href: csvAddress(table) }, "its numbers as CSV")));
  document.body.dataset.seen = names[guess];
}

function drawBars(chosen, shares, names, guess) {
  const width = 760, height = 240, left = 48, below = 44, step = (width - left) / names.length, wide = (step - 10) / chosen.length;
  const y = (share) => 22 + (height - below - 22) * (1 - share / 100);
  const svg = element("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": chosen.map((run, i) => `${runs[run].label}: ${shares[i].map((share, b) => (share === null ? "" : `${names[b]} ${share.toFixed(0)} %`)).join(", ")}`).join("; ") },
  element("rect", { class: "guess", x: left + step * guess, y: 22, width: step, height: height - below - 22 }));
  names.forEach((name, b) => {
    svg.append(element("text", { x: left + step * (b + 0.5), y: height - below + 16, "text-anchor": "middle" }, name));
    chosen.forEach((run, i) => {
      if (shares[i][b] === null) return;
      const x = left + step * b + 5 + wide * i;
      svg.append(element("rect", { class: "dot", style: `--model: ${runs[run].colour}`, x, y: y(shares[i][b]), width: wide - 1, height: y(0) - y(shares[i][b]) }),
        element("text", { x: x + wide / 2, y: y(shares[i][b]) - 3, "text-anchor": "middle" }, shares[i][b].toFixed(0)));
    });
  });
  for (const share of [0, 50, 100]) {
    svg.append(element("line", { x1: left, x2: width, y1: y(share), y2: y(share) }),
      element("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, `${share} %`));
  }
  let x = left;
  for (const run of chosen) {
    svg.append(element("rect", { class: "dot", style: `--model: ${runs[run].colour}`, x, y: height - 16, width: 10, height: 10 }),
      element("text", { x: x + 14, y: height - 7 }, runs[run].label));
    x += 30 + 7.5 * runs[run].label.length;
  }
  return svg;
}
