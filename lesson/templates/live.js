// The state of the page is its address: #w=words&i=which of that length, or #text=…; then
// &m=model&l=layer&h=head of the map, &mute=model-attention-head,… of muted heads, and
// &take=model-place-token,… of words that were chosen in place of the model's own.
import { AttentionPanel, selectWeights, selectedHead } from "./attention.js";
import { MARKS_NOTE, countRight, countWords, formatRight, isWord, markPart, showDifferences, splitWords } from "./differences.js";
import { Output, data, encode, makeJob, normalize, requestTexts, runs, sendModel, sendRuntime, startWorker, tokenizer, turn } from "./models.js";
import { changeAddress, element, isUnserved, link, patch, query, readAddress, showFailure, take, unpack } from "./page.js";
import { StripChart } from "./strip.js";
import { tokensOfWords } from "./tokenizers.js";

const START_WORDS = 27; // long enough for models to differ, short enough to read
const REVEAL_MS = 140; // for a word, while the page plays
const MAP_MS = 200; // between two drawings of a map that grows

/** @typedef {{ x: number, src: string, ref: string }} Example x: its place on the slider */
/** @type {Example[]} */
let examples = [];
/** @type {number[]} */
let lengths = [];
/** @type {string | undefined} */
let text;
/** @type {Example | undefined} */
let example;
let muted = "", taken = "";
/** @type {Output[]} */
let written = [];
/** @type {StripChart} */
let strip;

/** Say something, once: for all to see, or for screen readers what the page shows anyway. */
function setStatus(message, isShown = true) {
  query("#status").textContent = message;
  query("#status").classList.toggle("spoken", !isShown);
}
const isMarked = () => Boolean(example) && !data.continues;
const canAttend = runs.flatMap((run, i) => (run.manifest.attention ? [i] : []));
const plural = (n, noun) => `${n.toLocaleString("en")} ${n === 1 ? noun.replace(/s$/, "") : noun}`;

// --------------------------------------------------------------------------------- Arrival

let nLoaded = 0, nArrived = 0;
const begun = performance.now();

/** Say why the models cannot run: in place of the page, if none of them can. */
function setFailed(message) {
  if (nLoaded) return setStatus(`The models cannot run here: ${message}`);
  showFailure(message, data.files);
}

/** Use a part; the page calls it below each that it holds, or for each of its files, in order. */
async function usePart(id) {
  const part = take(id, data.files), onArrived = (n) => { nArrived += part.address ? n : 0; };
  if (!part.address || id === "worker") nArrived += data.sizes[id];
  if (id === "worker") await startWorker(part, setLoaded, setFailed, onArrived);
  else if (id === "examples") setExamples(JSON.parse(new TextDecoder().decode(await unpack(part, onArrived))));
  else if (id === "wasm") sendRuntime(part);
  else sendModel(Number(id.split("-")[1]), part);
}
globalThis.arrive = (id) => (isUnserved(data.files) ? Promise.reject(new Error("this page was opened from a disk")) : usePart(id)).catch((error) => setFailed(error.message));

function setLoaded(i, sum) {
  nLoaded += 1;
  if (sum) query(`#sum-${i}`).textContent = sum;
  query(`#run-${i}`).dataset.loaded = "true";
  scheduleDraw(i);
  if (nLoaded === runs.length) document.body.dataset.ready = ((performance.now() - begun) / 1000).toFixed(2);
}

/** Say how much of the page has arrived, that which is arriving included. */
function showProgress() {
  const arriving = document.querySelector("script[data-part]"), total = Object.values(data.sizes).reduce((a, b) => a + b, 0);
  const n = nArrived + 0.75 * (arriving?.firstChild?.nodeValue?.length ?? 0), megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  query("#loading progress").value = n / total;
  query("#loading span").textContent = `${megabytes(n)} of ${megabytes(total)} MB, ${nLoaded} of ${runs.length} models are ready`;
  query("#loading").hidden = nLoaded === runs.length;
  if (nLoaded < runs.length && query("#failed").hidden) setTimeout(showProgress, 200);
}

function setExamples(listed) {
  examples = listed.map(([x, src, ref]) => ({ x, src, ref }));
  lengths = [...new Set(examples.map(({ x }) => x))];
  if (examples.length) {
    query("#length").max = lengths.length - 1;
    const last = lengths.findLastIndex((x) => data.limit !== null && x <= data.limit);
    query("#limit").hidden = last < 0 || last === lengths.length - 1;
    query("#limit").style.setProperty("--at", String(last / (lengths.length - 1)));
    strip = new StripChart({ runs, first: lengths[0], last: lengths[lengths.length - 1], limit: data.limit, unit: data.unit });
    query("#strip")?.replaceChildren(strip.svg);
  }
  const isUntouched = !location.hash && !query("#text").value;
  text = undefined; // what was asked before is asked again, now that lengths are known
  addEventListener("hashchange", render);
  render();
  if (isUntouched && isMarked() && !matchMedia("(prefers-reduced-motion: reduce)").matches) play();
}

// --------------------------------------------------------------------------------- Source

/** The example that the address names: the which-th of the nearest length. */
function selectExample({ w = String(START_WORDS), i = "0" }) {
  const nearest = lengths.reduce((best, x) => (Math.abs(x - Number(w)) < Math.abs(best - Number(w)) ? x : best), lengths[0]);
  const its = examples.filter(({ x }) => x === nearest);
  return its[(Number(i) || 0) % its.length];
}

function showSource() {
  const words = splitWords(normalize(text)), nWords = countWords(text), unknown = unknownWords(text);
  if (examples.length) {
    const at = lengths.reduce((best, x, i) => (Math.abs(x - nWords) < Math.abs(lengths[best] - nWords) ? i : best), 0);
    const place = example && lengths.includes(example.x) ? lengths.indexOf(example.x) : at, n = example ? example.x : nWords;
    query("#length").value = place;
    query("#length").setAttribute("aria-valuetext", `${plural(n, data.unit)}${example ? "" : ", your own"}`);
    query("#words").textContent = plural(n, data.unit);
    query("#beyond").textContent = data.limit !== null && n > data.limit ? `Longer than all ${data.noun} in training: they had at most ${data.limit} ${data.unit}.` : "";
    query("#another").disabled = !example || examples.filter(({ x }) => x === example.x).length < 2;
  }
  patch(query("#source"), words, (word) => `${word.space}${word.text} ${unknown.has(word.start)}`, ({ space, text: word, start }) =>
    element("span", {}, space, element("span", { class: "source-word" }, element(unknown.has(start) ? "s" : "span", {}, word),
      element("span", { class: "strips", "aria-hidden": "true" }, ...canAttend.map((run) => element("i", { style: `--model: ${runs[run].colour}` }))))));
  query("#reference").replaceChildren(...(example
    ? [element("strong", {}, data.continues ? "in the test set " : "reference "), element("bdi", {}, example.ref)] : []));
  query("#legend").textContent = isMarked() ? MARKS_NOTE : "";
  showHints();
}

/** The places of the words that a model cannot read: those that its vocabulary lacks. */
function unknownWords(given) {
  const normalized = normalize(given), ids = encode(given), spans = tokenizer.spans(normalized, ids);
  return new Set(splitWords(normalized).filter((word) => tokensOfWords([word], spans)[0].some((i) => ids[i] === 3)).map(({ start }) => start));
}

const nKnown = data.vocabulary.kind === "words" ? data.vocabulary.words.filter(isWord).length : 0;

/** Say what in the text that is typed differs from all that the models have learned. */
function showHints() {
  const typed = query("#text").value, normalized = normalize(typed), unknown = unknownWords(typed), hints = [];
  const names = [...new Set(splitWords(normalized).filter(({ start }) => unknown.has(start)).map(({ text: word }) => word))];
  if (nKnown) hints.push([`The models know ${nKnown} words, source and target together.`]);
  if (names.length) hints.push([names.length === 1 ? "Unknown to them: " : `${names.length} are unknown to them: `, ...names.flatMap((name, i) => [i ? ", " : "", element("bdi", {}, element("s", {}, name))]), "."]);
  if (typed.trim() && examples.length && !data.continues) {
    const all = (test) => examples.every(({ src }) => test(src)) && !test(typed.trim());
    if (all((src) => !/[.!?]\s+\S/u.test(src))) hints.push([`More than one sentence: ${data.noun} of the test set are single, so one may be lost.`]);
    if (all((src) => /[.!?]$/u.test(src))) hints.push([`No full stop at the end: all ${data.noun} of the test set have one.`]);
    if (all((src) => /^\P{Ll}/u.test(src))) hints.push([`It begins with a small letter: no ${data.noun} of the test set do.`]);
  }
  const n = encode(typed).length;
  query("#count").textContent = `${n} token${n === 1 ? "" : "s"}${data.vocabulary.kind === "words" ? ": words and punctuation marks" : ""}`;
  query("#hints").replaceChildren(...hints.map((parts) => element("li", {}, ...parts)));
  query("#ask").classList.toggle("edited", typed !== text);
}

// --------------------------------------------------------------------------------- Outputs

const dirty = new Set();
let mapAt = 0;

function mutedOf(run) {
  const { heads } = runs[run].manifest;
  return muted.split(",").map((part) => part.split("-").map(Number))
    .filter(([r, attention, head]) => heads && r === run && attention < heads.attentions.length && head < heads.n)
    .map(([, attention, head]) => /** @type {[number, number]} */ ([attention, head]));
}

/** The tokens that were chosen in place of a model's own, by their places. */
const takenOf = (run) => Object.fromEntries(taken.split(",").map((part) => part.split("-").map(Number))
  .filter(([r, place, token]) => r === run && place >= 0 && tokenizer.labels[token] !== undefined).map(([, place, token]) => [place, token]));

async function writeAll() {
  stopPlaying();
  showSource();
  const isBlank = !text.trim() && !data.continues;
  const jobs = runs.map((_, i) => makeJob(i, text, { muted: mutedOf(i), taken: takenOf(i), isShown: true }));
  written = jobs.map((job) => new Output(job));
  written.forEach((_, i) => scheduleDraw(i));
  light();
  if (!offered) offerWords();
  showAttention();
  query("#stop").hidden = isBlank;
  const isDone = await requestTexts(isBlank ? [] : jobs, (message) => {
    written[message.job].add(message);
    scheduleDraw(message.job);
    if (message.job === selectedRun() && (message.finished || performance.now() - mapAt > MAP_MS)) showAttention();
  });
  if (!isDone) return;
  query("#stop").hidden = shown === Infinity;
  showAttention();
  document.body.dataset.done = String(turn);
  if (isBlank) setStatus("Type a sentence first.");
  else if (shown === Infinity) summarize();
}

/** Say what has come out, once. */
function summarize() {
  const scores = isMarked() ? runs.map((run, i) => `${run.label} ${formatRight(written[i].text, example.ref)}`).join(", ") : "";
  setStatus(scores ? `Right: ${scores}.` : "All models have finished.", false);
}

const countTokens = () => written.reduce((sum, { tokens }) => sum + tokens.length, 0);

/** End what the models are writing, and show what is there. */
async function stop() {
  endPlaying();
  query("#stop").hidden = true;
  if (written.every(({ isFinished }) => isFinished)) return;
  await requestTexts([], () => {});
  document.body.dataset.done = String(turn);
  setStatus(`Stopped after ${plural(countTokens(), "tokens")} by all models.`);
}

/** Outputs are drawn once a frame, however many tokens have come. */
function scheduleDraw(run) {
  if (!written[run]) return;
  query("#stop").textContent = `stop (${plural(countTokens(), "tokens")})`;
  if (!dirty.size) requestAnimationFrame(() => { for (const i of dirty) drawOutput(i); dirty.clear(); });
  dirty.add(run);
}

function drawOutput(run) {
  const { tokens, job, isFinished, text: whole } = written[run], row = query(`#run-${run}`), words = splitWords(whole);
  const isCut = shown < words.length, output = isCut ? whole.slice(0, words[shown - 1]?.end ?? 0) : whole;
  const isOver = isFinished && !isCut;
  const parts = isMarked() && !job.problem ? showDifferences(output, example.ref, isOver)
    : splitWords(job.problem ?? output).map((word, index) => ({ kind: "same", title: "", index, ...word }));
  patch(row.querySelector(".written"), parts, ({ kind, text: word, space, index, title }) => [kind, word, space, index, title].join("\n"), markPart);
  const first = row.querySelector(".w");
  if (first && !row.querySelector('.w[tabindex="0"]')) first.setAttribute("tabindex", "0");
  row.dataset.tokens = tokens.join(" ");
  row.dataset.finished = isOver;
  const names = (job.muted ?? []).map(([attention, head]) => `muted: ${nameAttention(run, attention)}, head ${head + 1}`);
  const chosen = Object.values(job.taken ?? {}).map((token) => `chosen: ${tokenizer.labels[token]}`);
  const changed = [...names, ...chosen].join("; ");
  row.querySelector(".changed").textContent = changed;
  const score = query(`#score-${run}`), { right, words: n } = countRight(output, example?.ref ?? "");
  score.querySelector(".fill").style.width = isMarked() && n ? `${(100 * right) / n}%` : "0";
  score.querySelector(".right").textContent = !row.dataset.loaded ? "loading" : isMarked() && n && !job.problem ? formatRight(output, example.ref) : "–";
  score.querySelector(".spoken").textContent = isMarked() ? " words right" : ": no reference";
  if (isOver && offered?.[0] === run) offerWords();
  if (isOver && isMarked() && !changed && !job.problem && strip.add(run, text, example.x, right, n)) {
    query("#strip-csv").replaceChildren(element("a", { download: "shares.csv", href: strip.address }, "its numbers as CSV"));
  }
}

// ------------------------------------------------------------------------------------ Play

let shown = Infinity; // words of each output that are shown
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/** Show all outputs word by word, as fast as one can read them. */
function play() {
  query("#stop").hidden = false;
  clearInterval(timer);
  shown = 0;
  timer = setInterval(() => {
    const open = written.filter((output, i) => query(`#run-${i}`).dataset.loaded && splitWords(output.text).length > shown);
    const isWaiting = written.some((output, i) => runs[i].is_first && !output.isFinished && splitWords(output.text).length <= shown);
    if (isWaiting || !nLoaded) return;
    if (!open.length) return endPlaying();
    shown += 1;
    written.forEach((_, i) => scheduleDraw(i));
    light(shown - 1);
  }, REVEAL_MS);
  written.forEach((_, i) => scheduleDraw(i));
}

function stopPlaying() {
  clearInterval(timer);
  shown = Infinity;
}

function endPlaying() {
  stopPlaying();
  query("#stop").hidden = written.every(({ isFinished }) => isFinished);
  light();
  written.forEach((_, i) => scheduleDraw(i));
  document.body.dataset.played = (performance.now() / 1000).toFixed(2);
  if (written.every(({ isFinished }) => isFinished)) summarize();
}

// ----------------------------------------------------------------------------------- Light

/** How much of a model's attention each word of the source has while it writes a word.
 * @returns {number[] | null} null: the model has no such word, or no weights of it yet */
function weightsOf(run, index) {
  const { tokens, rows, job, text: output } = written[run], sizes = runs[run].manifest.attention;
  const its = tokensOfWords(splitWords(output), tokenizer.spans(output, tokens))[index] ?? [], source = normalize(text);
  const known = its.flatMap((t) => (rows[t] ? [rows[t]] : []));
  if (!known.length || job.problem) return null;
  const { layer, head } = run === selectedRun() ? selectedHead(sizes) : { layer: "align", head: 0 };
  const { weights } = selectWeights(job.src.map(String), its.map(String), known, sizes, layer, head);
  const mean = job.src.map((_, s) => weights.reduce((sum, row) => sum + row[s], 0) / weights.length);
  return tokensOfWords(splitWords(source), tokenizer.spans(source, encode(text))).map((ids) => ids.reduce((sum, s) => sum + mean[s], 0));
}

/** Light up, in all models, the word that one of them has at a place, and its source words.
 * @param {number} [index] none: put all lights out
 * @param {string} [word] if given, each model's nearest place of this word instead */
function light(index, word) {
  const strips = [...document.querySelectorAll(".strips")];
  for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
  for (const i of strips.flatMap((part) => [...part.children])) /** @type {HTMLElement} */ (i).style.opacity = "0";
  if (index === undefined) return;
  /** @type {{ weight: number, at?: HTMLElement }} */
  const strongest = { weight: 0 };
  runs.forEach((_, run) => {
    const same = word === undefined ? [index] : splitWords(written[run].text).flatMap(({ text: own }, i) => (own === word ? [i] : []));
    const place = same.sort((a, b) => Math.abs(a - index) - Math.abs(b - index))[0];
    query(`#run-${run} [data-w="${place}"]`)?.classList.add("lit");
    const weights = canAttend.includes(run) ? weightsOf(run, place) : null;
    weights?.forEach((weight, s) => {
      const bar = /** @type {HTMLElement} */ (strips[s]?.children[canAttend.indexOf(run)]);
      if (bar) bar.style.opacity = String(Math.min(1, weight));
      if (weight > strongest.weight) Object.assign(strongest, { weight, at: bar?.closest(".source-word") });
    });
  });
  if (strongest.at) query("#source").scrollTop = strongest.at.offsetTop - strongest.at.offsetHeight; // in sight
}

function lightWord({ target }) {
  const word = target.closest?.("[data-w]");
  if (!word || shown !== Infinity) return;
  light(Number(word.dataset.w), splitWords(written[Number(word.closest(".run").id.split("-")[1])].text)[Number(word.dataset.w)]?.text);
}

/** @type {[number, number] | undefined} the model and word for which others are offered */
let offered;

function chooseWord({ target }) {
  const word = target.closest?.("[data-w]");
  if (!word || shown !== Infinity) return;
  offered = [Number(word.closest(".run").id.split("-")[1]), Number(word.dataset.w)];
  offerWords();
}

/** List the likeliest words at a place; from one that is chosen, the model goes on anew. */
function offerWords() {
  const isFocused = document.activeElement?.closest(".top");
  for (const row of document.querySelectorAll(".top")) row.replaceChildren();
  if (!offered) return;
  const [run, index] = offered, { tokens, tops, text: whole } = written[run], own = taken.split(",").filter((part) => part.startsWith(`${run}-`));
  const place = tokensOfWords(splitWords(whole), tokenizer.spans(whole, tokens))[index]?.[0], others = taken.split(",").filter((part) => part && !own.includes(part));
  const before = own.filter((part) => Number(part.split("-")[1]) < place);
  const buttons = (tops[place] ?? []).map(([token, p]) => {
    const button = element("button", { type: "button", "aria-pressed": String(token === tokens[place]) },
      `${tokenizer.labels[token]} ${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`);
    button.addEventListener("click", () => changeAddress({ take: [...others, ...before, `${run}-${place}-${token}`].join(",") }));
    return button;
  });
  query(`#run-${run} .top`).replaceChildren("Here, this model finds likely: ", ...buttons.flatMap((button) => [button, " "]),
    ...(own.length ? [link("its own words again", { take: others.join(",") })] : []));
  if (isFocused) query(`#run-${run} .top [aria-pressed="true"]`)?.focus();
}

function walk(event) {
  if (event.key === "Enter") chooseWord(event);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], word = event.target.closest("[data-w]");
  if (!step || !word) return;
  const words = [...word.closest(".written").querySelectorAll("[data-w]")], next = words[words.indexOf(word) + step];
  if (!next) return;
  event.preventDefault();
  word.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

// ------------------------------------------------------------------------------- Attention

const panel = new AttentionPanel("h2");
const labels = (ids) => ids.map((id) => tokenizer.labels[id]);
const selectedRun = () => (canAttend.includes(Number(readAddress().m)) && readAddress().m !== undefined ? Number(readAddress().m) : canAttend[0]);

/** The name of an attention, from the path of its module. */
function nameAttention(run, attention, isWhole = false) {
  const [side, layer] = runs[run].manifest.heads.attentions[attention].split(".");
  const isOnSource = runs[run].manifest.attention.mask_rows.includes(attention);
  const where = isOnSource ? (isWhole ? "over the whole text" : "to the source") : `within the ${side === "encoder" ? "source" : "target"}`;
  return `${where}, layer ${Number(layer) + 1}`;
}

function showAttention() {
  const run = selectedRun();
  mapAt = performance.now();
  if (run === undefined || !written.length) return;
  const { attention: sizes, heads } = runs[run].manifest, { rows, tokens, job, isFinished } = written[run];
  const isOnText = (a) => !heads.attentions[a].endsWith("src_attention");
  const others = (heads?.attentions ?? []).flatMap((_, a) => (isOnText(a) ? [[`a${a}`, nameAttention(run, a, true)]] : []));
  const { layer, head } = selectedHead(sizes, others.map(([value]) => value));
  const attention = typeof layer === "number" ? sizes.mask_rows[layer] : Number(layer.slice(1));
  const name = `${run}-${attention}-${head}`, list = muted.split(",").filter(Boolean), isMuted = list.includes(name);
  const toggle = () => changeAddress({ mute: (isMuted ? list.filter((one) => one !== name) : [...list, name]).join(",") });
  const isLate = sizes.graph === "attend" && !isFinished;
  query("#attention").hidden = false;
  panel.show({
    models: canAttend.map((i) => [i, runs[i].label]), run, label: runs[run].label, sizes, others, isFinished, id: String(turn),
    src: job.src && labels(job.src), tgt: labels(tokens.slice(0, rows.length)), rows: rows.slice(0, tokens.length),
    map: typeof layer === "string" && layer !== "align" ? mapOnText(run, attention, head) : undefined,
    names: runs[run].head_names?.[attention],
    note: job.problem ?? (isLate || (typeof layer === "string" && layer !== "align" && !isFinished) ? "drawn when the text is finished" : ""),
    mute: heads ? { isMuted, toggle } : null,
  });
  query("#unmute").hidden = !list.length;
}

/** The map of a head over the text that it is in: the source, the target that is read, or both. */
function mapOnText(run, attention, head) {
  const { maps, job, tokens } = written[run];
  if (!maps[attention]) return undefined;
  const { weights, dims: [, Q, M] } = maps[attention], read = labels([1, ...(job.prefix ?? []), ...tokens].slice(0, -1)), src = labels(job.src);
  const words = runs[run].manifest.heads.attentions[attention].startsWith("encoder") ? src : M === read.length ? read : [...src, ...read];
  const row = (q) => Array.from(weights.subarray((head * Q + q) * M, (head * Q + q + 1) * M));
  return { src: words, n: M, tgt: words.slice(M - Q), weights: Array.from({ length: Q }, (_, q) => row(q)) };
}

// -------------------------------------------------------------------------------- The page

function render() {
  const given = readAddress(), mute = given.mute ?? "", take = given.take ?? "";
  const nextExample = given.text !== undefined ? examples.find(({ src }) => src === given.text) : examples.length ? selectExample(given) : undefined;
  const next = given.text ?? nextExample?.src ?? "";
  if (next === text && nextExample === example && mute === muted && take === taken && written.length) return showAttention();
  const isTyped = text === undefined && example === undefined && query("#text").value; // while the page was loading
  const isNew = next !== text;
  if (isNew) offered = undefined;
  [text, example, muted, taken] = [next, nextExample, mute, next === text || text === undefined ? take : ""];
  if (isNew && !isTyped) query("#text").value = text;
  return writeAll();
}

function move(changes) { // replaces the entry in the history
  const { w, i, text: typed, take, ...view } = readAddress();
  history.replaceState(null, "", "#" + new URLSearchParams({ ...view, ...changes }));
  render();
}

function ask(event) {
  event.preventDefault();
  text = undefined; // the same text is written again
  move({ text: query("#text").value });
  query("#outputs").scrollIntoView({ block: "nearest" });
}

query("#ask").addEventListener("submit", ask);
query("#text").addEventListener("input", showHints);
query("#text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && (!data.continues || event.ctrlKey)) ask(event);
});
query("#length")?.addEventListener("input", ({ target }) => lengths.length && move({ w: lengths[Number(target.value)] }));
query("#another")?.addEventListener("click", () => {
  const its = examples.filter(({ x }) => x === example.x);
  move({ w: example.x, i: (its.indexOf(example) + 1) % its.length });
});
query("#play")?.addEventListener("click", play);
query("#stop").addEventListener("click", stop);
query("#own")?.addEventListener("click", () => { query("#text").focus(); query("#text").select(); });
query("#unmute").addEventListener("click", () => changeAddress({ mute: "" }));
for (const type of ["pointerover", "focusin", "click"]) query("#outputs").addEventListener(type, lightWord);
query("#outputs").addEventListener("pointerleave", () => { if (shown === Infinity) light(); });
query("#outputs").addEventListener("click", chooseWord);
query("#outputs").addEventListener("keydown", walk);
query("#attention").prepend(panel.root);
showProgress();
