"""The live page in a browser: what its models write, where they look, and how it behaves."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from filelock import FileLock
from test_browser_report import Tab

import seqmodels
from seqmodels import MODELS
from seqmodels.comparison.trained import TrainedRun
from seqmodels.interface import BOS, EOS
from seqmodels.search import allowed_argmax, generate
from seqmodels.site import live

pytestmark = pytest.mark.slow

RUNS = Path(__file__).parents[1] / "results" / "translation-live"
ATTENDING = ["bahdanau", "transformer", "gpt", "linear_attention"]
LENGTHS = [*range(2, 12), *range(12, 44, 4), 46, 51, 56, 61, 66, 71, 76, 86]
"""Tokens of the sources that all models translate."""
READY_S = 5 * int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
"""Seconds until a page is ready, where each worker has a share of the machine."""
TASK_MS, PAGE_BYTES = 200, 19_000_000


def built(folder: Path, scratch: Path) -> Path:
    """Write the live page of a folder, once for all workers; skip where npm is missing."""
    out = scratch / f"{folder.name}.html"
    with FileLock(f"{out}.lock"):
        if not out.exists():
            script = "from seqmodels.cli.main import main; main()"
            given = [sys.executable, "-c", script, "live", str(folder), "--out", str(out)]
            done = subprocess.run(given, capture_output=True, text=True, check=False)
            if "npm" in done.stderr and done.returncode == 2:
                pytest.skip(done.stderr.strip())
            assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all workers share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


class Live(Tab):
    """The live page, once its models are ready and have written their first texts."""

    def __init__(self, chromium: Any, path: Path, **settings: Any):
        super().__init__(chromium, path, **settings)
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)
        self.wait()

    def ready_s(self) -> float:
        """Return how long the models took to be ready, in seconds."""
        return float(self.page.locator("body").get_attribute("data-ready") or "inf")

    def wait(self) -> None:
        """Wait until everything that was asked for is written."""
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
        """Return what the models have written."""
        rows = self.page.locator(".run").all()
        return [[int(i) for i in (r.get_attribute("data-tokens") or "").split()] for r in rows]

    def numbers(self, download: str) -> list[list[str]]:
        """Return the rows of a CSV file that the page offers."""
        address = self.page.locator(f'a[download="{download}"]').get_attribute("href")
        assert address
        return [*csv.reader(io.StringIO(unquote(address.partition(",")[2])))]


@pytest.fixture
def tab(chromium: Any, scratch: Path) -> Iterator[Live]:
    """Open the live page of the committed runs."""
    opened = Live(chromium, built(RUNS, scratch))
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def runs() -> dict[str, TrainedRun]:
    """Load the committed runs."""
    return {name: seqmodels.load(RUNS / f"{name}-seed1") for name in MODELS}


def test_tokens(tab: Live, runs: dict[str, TrainedRun]) -> None:
    """Keeps out a page whose models write something else than the project's."""
    rows = [json.loads(line) for line in (RUNS / "bahdanau-seed1.jsonl").read_text().splitlines()]
    words = [word.strip(".,") for row in rows[-5:] for word in row["src"].split()]
    encode = runs["gpt"].encode_source
    for n in LENGTHS:
        text = " ".join(words[n : 2 * n - 1])
        assert len(encode(text)) == n
        found = tab.ask(text)
        for name, tokens in zip(MODELS, found, strict=True):
            assert tokens == runs[name].search([text])[0], (name, n)
    assert "1 and" not in tab.text("#status")


def check_map(tab: Live, columns: int, true: np.ndarray) -> None:
    """Compare the map that is shown with what the model computes."""
    _, *rows = tab.numbers("attention.csv")
    found = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.testing.assert_allclose(found[:, :columns], true, atol=1e-4)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-4)


def test_maps(tab: Live, runs: dict[str, TrainedRun]) -> None:
    """Keeps out a map of another layer or head, and one that `align` would not draw."""
    for name in ATTENDING:
        k, run = [*MODELS].index(name), runs[name]
        tab.page.select_option('[data-key="m"]', str(k))
        tab.page.select_option('[data-key="l"]', "align")
        tab.page.wait_for_timeout(100)
        text, tokens = tab.page.input_value("#text"), tab.tokens()[k]
        src = run.encode_source(text)
        check_map(tab, len(src), run.align_ids(text, tokens).weights)
        with torch.inference_mode():
            true = run.model.attention_weights(
                torch.tensor([src]), torch.ones(1, len(src), dtype=torch.bool),
                torch.tensor([[BOS, *tokens[:-1]]]),
            )[0]  # fmt: skip
        for layer, head in {(0, 0), (len(true) - 1, true.shape[1] - 1)}:
            tab.page.select_option('[data-key="l"]', str(layer))
            tab.page.wait_for_timeout(100)
            tab.page.select_option('[data-key="h"]', str(head))
            tab.page.wait_for_timeout(100)
            check_map(tab, len(src), true[layer, head].numpy())


def test_checksums(tab: Live) -> None:
    """Keeps out weights that are not those of the records."""
    data = json.loads(tab.page.locator("#data").text_content() or "")
    for k, name in enumerate(MODELS):
        record = json.loads((RUNS / f"{name}-seed1.json").read_text())
        cells = tab.page.locator(f"tr:has(#sum-{k}) td").all_inner_texts()
        assert cells[2] == data["runs"][k]["manifest"]["files"]["weights.bin"]
        assert cells[3] == record["weights_sha256"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_asks_for_nothing(chromium: Any, scratch: Path, scheme: Any) -> None:
    """Keeps out requests, messages, sizes beyond the limits, and what cannot be read."""
    tab = Live(chromium, built(RUNS, scratch), color_scheme=scheme)
    assert [url for url in tab.asked if not url.startswith("blob:")] == [tab.path.as_uri()]
    assert tab.said == []
    policy = tab.page.locator("meta[http-equiv]").get_attribute("content") or ""
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    assert not Axe().run(tab.page).response["violations"]
    assert tab.path.stat().st_size < PAGE_BYTES
    ready = [tab.ready_s()]
    while min(ready) >= READY_S and len(ready) < 3:  # another program may hold up one start
        tab.page.reload()
        tab.page.wait_for_selector("body[data-ready]", timeout=60_000)
        ready.append(tab.ready_s())
    assert min(ready) < READY_S, ready
    tab.context.close()


def test_phone(chromium: Any, scratch: Path) -> None:
    """Keeps out a page that is wider than a phone."""
    tab = Live(chromium, built(RUNS, scratch), viewport={"width": 390, "height": 800})
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 390
    tab.context.close()


def test_by_keyboard(tab: Live) -> None:
    """Keeps out a page that needs a mouse, or forgets what was chosen."""
    for _ in range(30):
        if tab.page.evaluate("document.activeElement.id") == "length":
            break
        tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("End")
    tab.wait()
    assert int(tab.text("#words").split()[0]) > 60
    tab.page.focus('[data-key="m"]')
    tab.page.keyboard.press("ArrowDown")
    tab.page.wait_for_timeout(100)
    chosen = tab.page.input_value('[data-key="m"]')
    assert tab.page.evaluate("document.activeElement.dataset.key") == "m"
    said, address = tab.page.input_value("#text"), tab.page.url
    tab.page.reload()
    tab.page.wait_for_selector("body[data-ready]")
    tab.wait()
    assert (tab.page.input_value("#text"), tab.page.url) == (said, address)
    assert tab.page.input_value('[data-key="m"]') == chosen


def test_stays_responsive(tab: Live) -> None:
    """Keeps out a page that stands still while its models write, each of three times."""
    tab.page.evaluate("""() => {
        self.long = [];
        new PerformanceObserver((list) => {
            self.long.push(...list.getEntries().map((entry) => entry.duration));
        }).observe({ type: "longtask" });
    }""")  # fmt: skip
    longest = []
    for shorter in range(3):  # another program may hold up one
        tab.page.evaluate(f"self.long = []; move({{ e: examples.length - 1 - {shorter}, m: 5 }})")
        tab.wait()
        assert min(map(len, tab.tokens())) > 20
        assert max(map(len, tab.tokens())) > 80
        longest.append(max(tab.page.evaluate("self.long"), default=0))
    assert min(longest) < TASK_MS, longest


def test_guess(tab: Live) -> None:
    """Keeps out shares of right words that the records' own hypotheses do not have."""
    tab.page.locator('input[name="guess"]').nth(1).check()
    tab.page.click("#exercise button")
    tab.page.wait_for_selector("body[data-seen]", timeout=120_000)
    (_, *names), *found = tab.numbers("guess.csv")
    assert [row[0] for row in found] == ["RNN encoder–decoder", "LSTM seq2seq", "Bahdanau"]
    for name, row in zip(("rnn_encdec", "lstm_seq2seq", "bahdanau"), found, strict=True):
        lines = (RUNS / f"{name}-seed1.jsonl").read_text().splitlines()
        shares = right_by_bucket([json.loads(line) for line in lines], names)
        assert [float(cell) for cell in row[1:]] == pytest.approx(shares, abs=0.06)
        below = [names[b] for b, share in enumerate(shares) if share < 50]
        verdict = f"fewer than half from {below[0]} on" if below else "half or more at every length"
        assert f"{row[0]}: {verdict}" in tab.text("#seen")


def right_by_bucket(rows: list[dict[str, Any]], names: list[str]) -> list[float]:
    """Return the share of the reference's words that are written in its order, in per cent."""
    shares = []
    for name in names:
        low, high = map(int, name.split("–"))
        inside = [(r["hyp"].split(), r["ref"].split()) for r in rows if low <= r["x"] <= high]
        n_right = sum(common(hyp, ref) for hyp, ref in inside)
        shares.append(100 * n_right / sum(len(ref) for _, ref in inside))
    return shares


def common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for word in a:
        before = row[:]
        for j, other in enumerate(b):
            row[j + 1] = before[j] + 1 if word == other else max(row[j], before[j + 1])
    return row[-1]


def test_hostile_text(tab: Live) -> None:
    """Keeps out text that is run, and text on which the page breaks."""
    bent = "\u202e\x07<img src=x onerror='self.hacked = 1'>"
    for text in ("</script><script>self.hacked = 1</script>", bent, "x" * 2_000, " "):
        tab.ask(text)
        assert tab.page.input_value("#text") == text
    assert tab.page.evaluate("self.hacked") is None
    assert tab.said == []


def test_continues_a_text(chromium: Any, scratch: Path, language_model: Path) -> None:
    """Keeps out a continuation that is not the model's own."""
    tab = Live(chromium, built(language_model, scratch))
    tab.page.fill("#temperature", "0")
    found = tab.ask("so he said 3")
    for name, tokens in zip(("lstm_seq2seq", "gpt"), found, strict=True):
        run = seqmodels.load(language_model / f"{name}-seed1")
        for p in run.model.parameters():
            p.data = p.data.half().float()
        said = run.encode("so he said 3")
        n = min(12, len(said) + live.N_NEW, run.model.max_target(1))
        src = torch.tensor([[BOS]])
        (true,) = generate(run.model, src, src == BOS, n, allowed_argmax, torch.tensor([said]))
        assert tokens == [token for token in true[len(said) :] if token != EOS]
    assert tab.said == []
    tab.context.close()
