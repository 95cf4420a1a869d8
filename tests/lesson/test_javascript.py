"""The scripts of the pages in Node.js: tokenizers, differences, the report, and fake models."""

import base64
import gzip
import itertools
import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from browser import TESTS, compress, fake_run, fake_worker, pack

from lesson import layout, vocabulary
from seqmodels.data.tokenizers import BPE, Bytes, Characters, Tokenizer, Words

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on this machine")


def run_node(body: str, name: str = "", **given: Any) -> Any:
    """Run a script, then the body of a function, on fake elements; return the function's value."""
    script = "\n".join([
        f"const given = {json.dumps(given)};", (TESTS / "fake_dom.js").read_text(encoding="utf-8"),
        layout.script(name) if name else "",
        f"(async () => {{ {body} }})().then((value) => console.log(JSON.stringify(value)));",
    ])  # fmt: skip
    process = subprocess.run(
        ["node", "-"], input=script, capture_output=True, encoding="utf-8", check=False, timeout=60
    )
    assert process.returncode == 0, process.stderr[:2000]
    assert not process.stderr
    return json.loads(process.stdout)


# ------------------------------------------------------------------------------------ Tokenizers
LINES = [
    "Although the cat watched them, the hat had disappeared.",
    "Don't well-known 1234567 naïve Ångström, straße; привет мир! 你好，世界。",
    "a\u0301e\u0308 \u200d family 👩\u200d👩\u200d👧 ½ ² Ⅷ ٣ 𝒜𝟘 ﬁ _under_score @,@ <unk>",
    "zz zz zzz",
] * 4
TOKENIZERS: list[Tokenizer] = [Bytes(), BPE.train(LINES, 400)]
TOKENIZERS += [kind.train(LINES) for kind in (Words, Characters)]
HOSTILE = [
    "", " ", "\n", "\r\n\t ", "\x00\x01\x1c\x1d\x1e\x1f\x7f\x85\xa0\u2028\ufeff",
    "\u202eright to left\u202c שלום עליكم", "’'-'’ --- '''", "e\u0301" * 50, "x" * 2_000,
    " " * 500 + "x", "\n" * 300, "\U0001f1e9\U0001f1ea" * 20, "ſK\u212a İi̇ ẞß ΑΣ",
    "Straße\u00adn", "ab\u200bcd", "\u3000全角\u3000", "<eos> <pad> ⁇", "zzz zzzzz",
]  # fmt: skip


@pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda one: type(one).__name__)
def test_tokens_are_those_of_python(tokenizer: Tokenizer, is_all: bool) -> None:
    draw = random.Random(1)
    alphabets = [vocabulary.CHARACTERS, "".join(LINES), " \n\t\xa0\x1c'-.,"]
    words = ["".join(draw.choice(draw.choice(alphabets)) for _ in range(40)) for _ in range(500)]
    texts = HOSTILE + words
    if is_all:
        chars = [c for c in vocabulary.CHARACTERS if ord(c) < 0x40000 or ord(c) % 101 == 0]
        texts = ["a" + "1".join(chars[i : i + 600]) for i in range(0, len(chars), 600)]
    body = """
    const { vocabulary, texts } = given.tokenizing, tokenizer = makeTokenizer(vocabulary);
    return texts.map((text) => {
      const ids = tokenizer.encode(text);
      return [ids, tokenizer.decode(ids)];
    });"""
    tokenizing = {"vocabulary": vocabulary.describe(tokenizer), "texts": texts}
    actual = run_node(body, "tokenizers.js", tokenizing=tokenizing)
    for text, (ids, decoded) in zip(texts, actual, strict=True):
        assert ids == tokenizer.encode(text), repr(text)
        assert decoded == tokenizer.decode(ids), repr(text)


# ---------------------------------------------------------------------------- What pages share
def test_the_modules_own_tests_pass() -> None:
    command = ["node", "--test", str(TESTS / "javascript.test.mjs")]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert process.returncode == 0, process.stdout + process.stderr


# ------------------------------------------------------------------------------ The live page
WORDS = Words([*"abcdefg"])
RUNS = [fake_run("Vector", n=1), fake_run("Pair", n=2), fake_run("Attends", shape=[2, 3])]
RUNS += [fake_run("Late", shape=[3, 2], attend=True)]


def describe_live(examples: Sequence[tuple[int, str, str]], **changes: Any) -> dict[str, Any]:
    """Return the live page with fake models, the script of its worker, and its parts in order."""
    packed = [pack(run, bytes([1, 2, 3, 4, 5, i])) for i, run in enumerate(RUNS)]
    more = {"chapter": False, "is_fixed": False, "n_parameters": 7, "tokens": 8}
    runs = [
        {**run, **more, "colour": f"#00000{i}", "is_vector": i < 2, "is_first": i == 1,
         "model": str(i), "sizes": packed[i]["sizes"]}
        for i, run in enumerate(RUNS)
    ]  # fmt: skip
    models = {f"model-{i}": base64.b64decode(one["part"]["base64"]) for i, one in enumerate(packed)}
    rest = {"worker": fake_worker(), "examples": json.dumps(examples), "wasm": "1"}
    parts = {name: gzip.compress(text.encode()) for name, text in rest.items()} | models
    data = {
        "task": "translation", "noun": "sentences", "axis": "length", "unit": "words",
        "continues": None, "block": None, "n_new": 5, "case": "lower", "has_source_end": True,
        "vocabulary": vocabulary.describe(WORDS), "runs": runs, "limit": 3,
        "sizes": {name: len(part) for name, part in parts.items()}, "files": {},
        "most_characters": 99,
    } | changes  # fmt: skip
    html = layout.render(
        "live.html", name="toy", subtitle="", runs=runs, parts=parts, data=data,
        groups={"One vector": [0, 1], "Other": [2, 3]}, has_examples=bool(examples),
        versions={"onnxruntime-web": "1"},
    )  # fmt: skip
    return {"script": fake_worker(), "html": html, "parts": [*parts]}


def run_live(body: str, examples: Sequence[tuple[int, str, str]] = (), **changes: Any) -> Any:
    """Load the live page with fake models; run a body that can ask write(texts, changes)."""
    start = """for (const id of given.parts) await usePart(id);
    async function write(texts, changes = {}) {
      const all = { isShown: true, ...changes };
      const outputs = texts.map(([run, text]) => new Output(makeJob(run, text, all)));
      const jobs = outputs.map(({ job }) => job);
      await requestTexts(jobs, (message) => outputs[message.job].add(message));
      return outputs;
    }"""
    return run_node(start + body, "live.js", **describe_live(examples, **changes))


def test_the_longest_length_of_training_is_marked_where_there_are_longer_ones() -> None:
    body = """
    const mark = query("#limit"), at = mark.hidden ? null : mark.style.getPropertyValue("--at");
    const sentences = ["a b c.", "a b c d", "d c b"].map((one) => {
      [text, example] = [one, undefined];
      showSource();
      return [query("#length").value, query("#words").textContent, query("#beyond").textContent];
    });
    const areAlone = examples.map((one) => {
      [text, example] = [one.src, one];
      showSource();
      return query("#another").disabled;
    });
    return [at, sentences, areAlone];"""
    examples = [(n, "a b c d e f g"[: 2 * n - 1], "g") for n in (1, 3, 3, 6)]
    beyond = "Longer than all sentences in training: they had at most 3 words."
    three, four = [1, "3 words", ""], [1, "4 words", beyond]
    shown = ["0.5", [three, four, three], [True, False, False, True]]
    assert run_live(body, examples) == shown
    assert run_live(body, examples, limit=6)[0] is None
    assert run_live(body, examples, limit=0)[0] is None


def test_sources_end_as_in_training_and_fit_the_positions() -> None:
    body = """const { manifest } = runs[0];
    return given.cases.map(([settings, most, text]) => {
      Object.assign(data, { continues: null, has_source_end: true, block: null }, settings);
      manifest.max_tokens = most;
      const { src, prefix, limit, problem } = makeJob(0, text);
      return problem ? "problem" : [src, prefix ?? null, limit];
    });""".replace("given.cases", json.dumps([
        [{}, None, "A c b"], [{}, 20, "a c b"], [{}, 4, "a c b"], [{}, 5, "a c b"],
        [{"has_source_end": False}, None, "a c b"], [{"has_source_end": False}, None, ""],
        [{"continues": "context"}, None, "a c b"], [{"continues": "context"}, 7, "a c b"],
        [{"continues": "prefix", "block": 12}, None, "a c b"],
        [{"continues": "prefix", "block": 6}, 9, "a c b"],
        [{"continues": "prefix", "block": 12}, 6, "a c b"],
        [{"continues": "prefix", "block": 3}, None, "a c b"],
    ]))  # fmt: skip
    acb = [4, 6, 5]
    assert run_live(body) == [
        [[*acb, 2], None, 18], [[*acb, 2], None, 16], "problem", [[*acb, 2], None, 1],
        [acb, None, 16], [[1], None, 12],
        [acb, None, 5], [acb, None, 4],
        [[1], acb, 8], [[1], acb, 6], [[1], acb, 5], "problem",
    ]  # fmt: skip


# --------------------------------------------------------------------------------- The worker
def test_models_take_turns() -> None:
    models = [
        {**pack(run, b"1234"), "load": i, "manifest": run["manifest"]} for i, run in enumerate(RUNS)
    ]
    body = """
    const messages = [], worker = new Worker();
    worker.onmessage = ({ data }) => data.arrived || messages.push(data);
    const job = (run, src, limit) => ({ run, src, limit, job: 10 + run });
    worker.postMessage({ turn: 0, jobs: [job(3, [5], 1)] });
    worker.postMessage({ part: given.none });
    given.models.forEach((model) => worker.postMessage(model));
    await until(() => messages.length === 6);
    const early = messages.splice(0).map(({ loaded, job }) => loaded ?? job);
    const count = (turn, key) =>
      messages.filter((message) => message.turn === turn && message[key]).length;
    worker.postMessage({ turn: 1, jobs: [job(0, [5, 6, 7], 9), job(2, [5, 6, 7], 2)] });
    await until(() => count(1, "finished") === 2);
    const first = messages.splice(0);
    worker.postMessage({ turn: 2, jobs: [job(2, Array(500).fill(5), 999)] });
    await until(() => count(2, "token") > 1);
    worker.postMessage({ turn: 3, jobs: [{ ...job(1, [8], 4), prefix: [5, 6] }] });
    await until(() => count(3, "finished"));
    const turns = messages.map((message) => message.turn);
    const last = messages.filter((message) => message.turn === 3);
    worker.postMessage({ turn: 4, jobs: [job(1, undefined, 1)] });
    await until(() => count(4, "failed"));
    const finish = ({ job, token, finished }) => [job, token ?? null, finished ?? false];
    const end = last.map(({ token, isForced }) => [token ?? null, isForced ?? null]);
    const [, second] = first.filter(({ weights }) => weights); // of a token after the first
    return [early, first.map(finish), turns, end, [...second.weights]];"""
    given = {"script": fake_worker(), "models": models, "none": {"base64": compress(b"")}}
    early, first, turns, last, weights = run_node(body, **given)
    assert early == [0, 1, 2, 3, 13, 13]  # the text waits for its model
    assert first == [
        [10, 5, False], [12, 5, False],
        [10, 2, False], [10, None, True], [12, 6, False], [12, None, True],
    ]  # fmt: skip
    assert turns == sorted(turns)
    assert last == [[5, True], [6, True], [3, False], [3, False], [None, None]]
    places = itertools.product((1, 2), (1, 2, 3), (1, 2, 3))  # layers, heads, source: no target
    assert weights == pytest.approx([0.1 * i + 0.01 * h + 0.001 * s for i, h, s in places])


def test_a_chosen_token_is_likely_and_allowed() -> None:
    script = fake_worker() + "; Object.assign(globalThis, { chooseToken, rankTokens })"
    body = """new Function(given.source)();
    return given.cases.map(([logits, temperature, random]) => {
      Math.random = () => random;
      return chooseToken(Float32Array.from(logits), temperature, { EOS: 2 });
    });"""
    log3 = 1.09861
    cases = [
        [[9, 8, 1, 2, 5, 5], 0, 0], [[9, 8, 5, 2, 5, 5], 0, 0],
        [[9, 9, 0, log3, -99], 1, 0.24], [[9, 9, 0, log3, -99], 1, 0.26],
        [[9, 9, 0, 2 * log3, -99], 2, 0.24], [[9, 9, 0, 2 * log3, -99], 2, 0.26],
        [[9, 9, 0, 2 * log3, -99], 1, 0.11], [[9, 9, log3, 0, -99], 1, 0.74],
        [[9, 9, log3, 0, -99], 1, 0.76],
    ]  # fmt: skip
    assert run_node(body, source=script, cases=cases) == [4, 2, 2, 3, 2, 3, 3, 2, 3]
    body = """new Function(given.source)();
    return rankTokens(Float32Array.from(given.logits), { EOS: 2 });"""
    logits = [9, 9, 0, log3, -1, log3, 2 * log3, -2]  # in all 1 + 3 + 1 / e + 3 + 9 + 1 / e²
    ranked = run_node(body, source=script, logits=logits)
    assert [token for token, _ in ranked] == [6, 3, 5, 2, 4]
    expected = [p / 16.5032 for p in (9, 3, 3, 1, 0.3679)]
    assert [p for _, p in ranked] == pytest.approx(expected, abs=1e-4)
