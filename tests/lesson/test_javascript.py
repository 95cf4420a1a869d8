"""The scripts of the pages in Node.js: tokenizers, differences, the report, and fake models."""

import base64
import gzip
import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
from browser import TESTS, fake_run, fake_worker, pack

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
    """Load the live page with fake models; run a body of a function."""
    start = "for (const id of given.parts) await usePart(id);"
    return run_node(start + body, "live.js", **describe_live(examples, **changes))


def test_what_is_chosen_is_written_and_counted() -> None:
    body = """
    const box = query("#text"), length = query("#length");
    const settle = async (act) => {
      act();
      await until(() => document.body.dataset.done === String(turn) && !dirty.size);
      const all = (path) => runs.map((_, i) => query(`#${path.replace("*", i)}`).textContent);
      return [box.value, all("run-* .written").slice(1, 3), all("score-* .right"),
        query("#score-1 .fill").style.width, all("run-* .changed").filter(Boolean),
        [length.value, length.attributes["aria-valuetext"], query("#another").disabled]];
    };
    const change = (changes) => { changeAddress(changes); fire(document, "hashchange"); };
    const states = [await settle(() => {})];
    const said = ["status", "beyond"].map((id) => query(`#${id}`).textContent);
    fire(query('#run-2 [data-w="4"]'), "pointerover");
    const lit = document.all(".lit").map((node) => `${node.closest(".run").id} ${node.dataset.w}`);
    const strips = document.all(".strips").map(({ children: [bar] }) => Number(bar.style.opacity));
    fire(query('#run-2 [data-w="1"]'), "click");
    said.push(query("#run-2 .top").textContent.slice(0, 50));
    states.push(await settle(() => change({ mute: "2-1-0", take: "3-1-9" })));
    states.push(await settle(() => { length.value = "1"; fire(length, "input"); }));
    for (const _ of "12") states.push(await settle(() => fire(query("#another"), "click")));
    said.push(query("#unmute").hidden, nameAttention(3, 2, true), strip.points.size);
    box.value = "A x. y d";
    for (const [type, key] of [["input"], ["keydown", { key: "Enter", shiftKey: true }]])
      fire(box, type, key);
    said.push(...["beyond", "words", "count", "hints"].map((id) => query(`#${id}`).textContent));
    states.push(await settle(() => fire(box, "keydown", { key: "Enter" })));
    const limits = [3, 6, 0].map((limit) => {
      setExamples(examples.map(({ x, src, ref }) => [x, src, ref], data.limit = limit));
      return query("#limit").hidden || query("#limit").style.getPropertyValue("--at");
    });
    return [states, said, lit, strips, limits];"""
    six, mute = "a b c d e f", "muted: to the source, layer 2, head 1"
    examples = [(1, "a", "g"), (3, "a b c", "a b c"), (3, "b c d", "b d c"), (6, six, six)]
    states, said, lit, strips, limits = run_live(body, examples)
    at_six, at_three, n_six = [2, "6 words", True], [1, "3 words", False], ["1 of 6", "2 of 6"]
    half, third, gap = f"{100 / 3}%", f"{200 / 3}%", "a b‸ (left out: c d e f) "
    abc = ["a b c", ["a b‸ (left out: c) ", "a b c"], ["1 of 3", "2 of 3", *["3 of 3"] * 2], third]
    bcd = ["b c d", ["b‸ (left out: d)  c", "b‸ (left out: d)  c d"], ["1 of 3", *["2 of 3"] * 3]]
    assert states == [
        [six, [gap, six], [*n_six, "6 of 6", "6 of 6"], half, [], at_six],
        [six, [gap, "a b c‸ (left out: d e f) "],
         [*n_six, "3 of 6", "2 of 6"], half, [mute, "chosen: f"], at_six],
        [*abc, [mute], at_three], [*bcd, third, [mute], at_three], [*abc, [mute], at_three],
        ["A x. y d", ["a ⁇", "a ⁇ ⁇"], ["–"] * 4, "0", [mute], [1, "4 words, your own", True]],
    ]  # fmt: skip
    assert said == [
        "Right: Vector 1 of 6, Pair 2 of 6, Attends 6 of 6, Late 6 of 6.",
        "Longer than all sentences in training: they had at most 3 words.",
        "Here, this model finds likely: b 100 % <eos> 0.0 %",
        False, "over the whole text, layer 3", 10, "", "3 words",
        "5 tokens: words and punctuation marks",
        "The models know 7 words, source and target together.3 are unknown to them: x, ., y."
        "More than one sentence: sentences of the test set are single, so one may be lost.",
    ]  # fmt: skip
    assert (lit, limits) == (["run-2 4", "run-3 4"], ["0.5", True, True])
    assert strips == pytest.approx([0.221 + 0.001 * s for s in range(6)])  # layer 2, mean of heads
