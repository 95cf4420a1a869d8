"""The live page: what it embeds, how it behaves on fake models, and what trained models write."""

import base64
import csv
import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import numpy as np
import pytest
from browser import FAKE_RUNS, FAKE_WEIGHTS, PHONE, Tab, data_of, replace_runtime
from checks import check_one_line, copy_records, copy_seed
from conftest import RESULTS, ROOT, Call

import seqmodels
from seqmodels import MODELS
from seqmodels.cli import main
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.site import live, runtime, vocabulary


@pytest.fixture(scope="module")
def page(site_folder: Path) -> Path:
    """Return the live page of three toy runs in a site, with fake models."""
    return site_folder / "live.html"


def embedded(text: str, name: str) -> bytes:
    """Return the content of an element."""
    match = re.search(rf'id="{name}">([^<]*)</script>', text)
    assert match
    return gzip.decompress(base64.b64decode(match[1]))


def test_content(trained: Path, page: Path) -> None:
    """Keeps out a page without its models, and examples that crowd it."""
    data, text = data_of(page), page.read_text()
    assert [run["label"] for run in data["runs"]] == ["Bahdanau", "LSTM seq2seq", "GPT"]
    assert [len(run["graphs"]) for run in data["runs"]] == [2, 2, 3]
    assert embedded(text, "wasm") == b"\0asm"
    assert json.loads(embedded(text, "step-1"))["n"] == 1
    planes = np.frombuffer(embedded(text, "weights-1"), np.uint8)
    assert planes.reshape(2, -1).T.tobytes() == FAKE_WEIGHTS
    records = [json.loads((trained / f"{name}-seed1.json").read_text()) for name in FAKE_RUNS]
    assert [run["n_parameters"] for run in data["runs"]] == [r["n_parameters"] for r in records]
    rows = [json.loads(line) for line in (trained / "gpt-seed1.jsonl").read_text().splitlines()]
    examples = {(row["x"], row["src"], row["ref"]) for row in rows}
    assert {(e["x"], e["src"], e["ref"]) for e in data["examples"]} <= examples
    lengths = [e["x"] for e in data["examples"]]
    assert lengths == sorted(lengths)
    for bucket in data["buckets"]:
        inside = range(bucket["low"], bucket["high"] + 1)
        n_shown, n = sum(x in inside for x in lengths), sum(row["x"] in inside for row in rows)
        assert n_shown == min(n, live.EXAMPLES_PER_BUCKET) > 0
    settings = [data[key] for key in ("case", "continues", "has_source_end", "unit")]
    assert settings == [None, None, records[0]["data"]["source_end"] == "EOS", "words"]


def test_content_of_a_language_model(
    language_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a language model that is asked to translate."""
    replace_runtime(monkeypatch)
    data = data_of(live.write(language_model, tmp_path / "live.html"))
    assert (data["continues"], data["block"], data["has_source_end"]) == ("prefix", 12, False)


def test_the_first_seed_with_weights(
    call: Call, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a seed without weights, and a model that is in the page twice."""
    replace_runtime(monkeypatch)
    folder = copy_records(trained, tmp_path / "seeds", "tokenizer.json", model="gpt")
    for seed in (2, 3):
        copy_seed(trained / "gpt-seed1", folder, seed)
    code, out, _ = call(main, "live", folder, "--out", tmp_path / "live.html")
    assert (code, re.findall(r"gpt-seed\d", out)) == (0, ["gpt-seed2"])
    assert len(data_of(tmp_path / "live.html")["runs"]) == 1


def test_mistakes(call: Call, trained: Path, tmp_path: Path) -> None:
    """Keeps out a traceback for a folder whose models cannot run, and for a wrong name."""
    bare = copy_records(trained, tmp_path / "bare")
    for folder, out, culprit in (
        (tmp_path / "none", "a.html", "none"),
        (bare, "a.html", str(bare)),
        (trained, "a.txt", "a.txt"),
        (trained, "none/a.html", "none/a.html"),
    ):
        check_one_line(call(main, "live", folder, "--out", tmp_path / out), culprit)


def test_unknown_tokenizer() -> None:
    """Keeps out a page that tokenizes otherwise than its models learned."""
    methods = {"encode": list, "decode": str}
    other = type("Other", (Tokenizer,), {"name": "gpt2 (50,260)", "labels": (), **methods})()
    with pytest.raises(ValueError, match="gpt2"):
        vocabulary.describe(other)


def test_the_runtime_is_fetched_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps out packages that are fetched again or not as locked, and a half-fetched folder."""
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ValueError, match="npm"):
        runtime.build_runtime()
    monkeypatch.setattr(shutil, "which", lambda name, path=None: name)
    failure = subprocess.CalledProcessError(1, "npm", "", "npm error network\nmore\n")
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
    with pytest.raises(ValueError, match=r"npm error network$"):
        runtime.build_runtime()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]

    def run(command: list[str], **_: Any) -> Any:
        if command[1] == "ci":
            part = Path(command[-1])
            for name in runtime.PACKAGE_FILES:
                assert (part / name).read_bytes() == (runtime.TEMPLATES / name).read_bytes()
            wasm = part / "node_modules/onnxruntime-web/dist/ort-wasm-simd-threaded.wasm"
            wasm.parent.mkdir(parents=True)
            wasm.write_bytes(b"\0asm")
        return subprocess.CompletedProcess(command, 0, "script", "")

    programs = Mock(side_effect=run)
    monkeypatch.setattr(subprocess, "run", programs)
    assert runtime.build_runtime() == runtime.build_runtime()
    assert [Path(c.args[0][0]).name for c in programs.mock_calls] == ["npm", "esbuild", "esbuild"]


class Live(Tab):
    """The live page, once its models are ready and have written their first texts."""

    def __init__(self, chromium: Any, path: Path, **settings: Any):
        super().__init__(chromium, path, **settings)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until the models are unpacked and have written."""
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)
        self.wait()

    def wait(self) -> None:
        """Wait until all requested texts are written and drawn."""
        self.page.wait_for_timeout(50)
        turn = self.page.evaluate("turn")
        self.page.wait_for_selector(f'body[data-done="{turn}"]', timeout=60_000)
        self.page.wait_for_timeout(50)  # texts are drawn with the next frame

    def ask(self, text: str) -> list[list[int]]:
        """Let all models write; return their tokens."""
        self.page.fill("#text", text)
        self.page.click("#ask button")
        self.wait()
        return self.tokens()

    def tokens(self) -> list[list[int]]:
        """Return the tokens of the texts on the page."""
        rows = self.page.locator(".run").all()
        return [[int(i) for i in (r.get_attribute("data-tokens") or "").split()] for r in rows]


def test_fake_models(chromium: Any, trained: Path, page: Path) -> None:
    """Keeps out a page whose scripts fail, forget a choice, need a mouse or run a hostile text."""
    tab = Live(chromium, page)
    first = data_of(page)["examples"][0]["src"]
    ids = seqmodels.load(trained / "gpt-seed1").encode(first)
    assert tab.tokens() == [ids, ids[:1], ids]
    tab.page.focus("#length")
    tab.page.keyboard.press("End")
    tab.wait()
    last = data_of(page)["examples"][-1]["src"]
    ids = seqmodels.load(trained / "gpt-seed1").encode(last)
    assert (tab.page.input_value("#text"), tab.tokens()) == (last, [ids, ids[:1], ids])
    assert int(tab.text("#words").split()[0]) == len(last.split())
    tab.page.focus('[data-key="m"]')
    tab.page.keyboard.press("ArrowDown")
    tab.wait_until("document.activeElement.dataset.key === 'm'")
    address, text = tab.page.url, tab.page.input_value("#text")
    tab.page.reload()
    tab.wait_until_ready()
    assert (tab.page.url, tab.page.input_value("#text")) == (address, text)
    assert tab.page.input_value('[data-key="m"]') == "2"
    tab.page.locator('input[name="guess"]').first.check()
    tab.page.click("#exercise button")
    tab.page.wait_for_selector("body[data-seen]")
    address = tab.page.locator('a[download="guess.csv"]').get_attribute("href")
    rows = csv.reader(unquote(address.partition(",")[2]).splitlines())
    assert [row[0] for row in rows] == ["model", "LSTM seq2seq", "Bahdanau"]
    hostile = "</script><script>self.ran = 1</script>\u202e\x07<img src=x onerror='self.ran = 1'>"
    tab.ask(hostile)
    assert tab.page.input_value("#text") == hostile
    assert tab.page.evaluate("self.ran") is None
    assert tab.messages == []
    tab.context.close()


def test_accessible_on_a_phone(chromium: Any, page: Path) -> None:
    """Keeps out requests, what axe finds, and a page that is wider than a phone."""
    tab = Live(chromium, page, **PHONE)
    tab.check_isolation()
    tab.check_access()
    assert tab.width() == 390
    tab.context.close()


RUNS = RESULTS / "translation-live"
PAGE_BYTES = 19_000_000


@pytest.mark.slow
def test_trained_models(chromium: Any, tmp_path: Path) -> None:
    """Keeps out texts and weights that are not those of the committed runs."""
    path = tmp_path / "live.html"
    command = [sys.executable, "-m", "seqmodels.cli.main", "live", str(RUNS), "--out", str(path)]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if "npm" in process.stderr and process.returncode == 2:
        pytest.skip(process.stderr.strip())
    assert process.returncode == 0, process.stderr
    tab = Live(chromium, path)
    tab.check_isolation()
    assert tab.path.stat().st_size < PAGE_BYTES
    runs = {name: seqmodels.load(RUNS / f"{name}-seed1") for name in MODELS}
    data = data_of(tab.path)
    for k, name in enumerate(MODELS):
        cells = tab.page.locator(f"tr:has(#sum-{k}) td").all_inner_texts()
        assert cells[2] == data["runs"][k]["manifest"]["files"]["weights.bin"]
        assert cells[3] == runs[name].record["weights_sha256"]
    rows = [json.loads(line) for line in (RUNS / "bahdanau-seed1.jsonl").read_text().splitlines()]
    words = [word.strip(".,") for row in rows[-5:] for word in row["src"].split()]
    for n in (2, 3, 5, 8, 11, 20, 36, 51, 86):
        text = " ".join(words[n : 2 * n - 1])
        assert len(runs["gpt"].encode_source(text)) == n
        for name, tokens in zip(MODELS, tab.ask(text), strict=True):
            assert tokens == runs[name].search([text])[0], (name, n)
    assert tab.messages == []
    tab.context.close()
