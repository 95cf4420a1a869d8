"""Pages in Chromium, their embedded data, and stand-ins for the runtime of the live page.

The fixtures of the tests of the lesson are here as well.
"""

import base64
import gzip
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from conftest import INT_IS_FLOAT, exit_code, make_once

from seqmodels.cli import main as seqmodels_command

jaxtyping.install_import_hook("lesson", INT_IS_FLOAT)

from lesson import layout, runtime  # noqa: E402

TESTS = Path(__file__).parent


class Tab:
    """An open page, with its requests and console messages."""

    def __init__(self, chromium: Any, path: Path, **settings: Any):
        self.context = chromium.new_context(**settings)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.open(path)

    def open(self, path: Path) -> None:
        """Go to a page; forget the requests of the last one."""
        self.path = path
        self.requests.clear()
        self.page.goto(path.as_uri())

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def wait_until(self, script: str) -> None:
        """Wait until an expression holds; Playwright's own way evaluates text in the page."""
        deadline = time.monotonic() + 30
        while not self.page.evaluate(script):
            assert time.monotonic() < deadline, script
            self.page.wait_for_timeout(20)

    def check_isolation(self) -> None:
        """Assert that the page has requested nothing else and logged nothing."""
        beside = self.path.parent.as_uri()
        assert not [url for url in self.requests if not url.startswith(("blob:", "data:", beside))]
        assert self.messages == []
        policy = self.page.locator("meta[http-equiv]").get_attribute("content")
        assert policy.startswith("default-src 'none'; ")
        assert "http" not in policy

    def check_access(self, *schemes: str) -> None:
        """Assert that axe finds no violation in these colour schemes."""
        from axe_playwright_python.sync_playwright import Axe

        for scheme in schemes or ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme)
            found = Axe().run(self.page).response
            violations = found["violations"]
            assert not [(v["id"], v["nodes"][0]["html"][:200]) for v in violations]

    def width(self) -> int:
        return self.page.evaluate("document.documentElement.scrollWidth")


PHONE = {"viewport": {"width": 390, "height": 800}}


def data_of(page: Path) -> dict[str, Any]:
    """Return the data that a page embeds for its script."""
    match = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)
    assert match
    return json.loads(match[1])


def fake_worker() -> str:
    """Return worker.js on top of the fake runtime."""
    fake = (TESTS / "fake_runtime.js").read_text(encoding="utf-8")
    return "".join([fake, layout.script("worker.js")])


def fake_run(
    label: str, n: int | None = None, shape: list[int] | None = None, attend: bool = False
) -> dict[str, Any]:
    """Return the manifest and graphs of a fake model (see fake_runtime.js)."""
    graphs = {
        "encode": {"part": "encode"},
        "step": {"part": "step", "n": n, "shape": None if attend else shape},
    }
    if shape and shape[1] > 1:
        graphs["attend"] = {"part": "attend", "shape": shape}
    attention = shape and {
        "graph": "attend" if attend else "step", "layers": shape[0], "heads": shape[1],
        "aligned_layers": [shape[0] - 1], "mask_rows": [*range(shape[0])],
    }  # fmt: skip
    paths = [f"decoder.{i}.self_attention" for i in range(shape[0])] if shape else []
    heads = {"attentions": paths, "n": shape[1]} if shape and shape[1] > 1 else None
    manifest = {
        "ids": {"PAD": 0, "BOS": 1, "EOS": 2, "UNK": 3}, "max_tokens": None,
        "state": [{"name": "h"}, {"name": "i"}], "attention": attention,
        "heads": heads, "files": {"weights.bin": "ab" * 32}, "run_weights_sha256": None,
    }  # fmt: skip
    return {"label": label, "manifest": manifest, "graphs": graphs}


def pack(run: dict[str, Any], weights: bytes) -> dict[str, Any]:
    """Return a fake model's part, and the sizes of what it holds."""
    graphs = {name: json.dumps(graph).encode() for name, graph in run["graphs"].items()}
    held = {"weights": weights, **graphs}
    part = {"base64": base64.b64encode(gzip.compress(b"".join(held.values()))).decode()}
    return {"sizes": [(name, len(content)) for name, content in held.items()], "part": part}


FAKE_WEIGHTS = bytes(range(200))
FAKE_RUNS = {
    "bahdanau": fake_run("Bahdanau", shape=[1, 1]), "lstm_seq2seq": fake_run("LSTM", n=1),
    "gpt": fake_run("GPT", shape=[2, 3], attend=True),
}  # fmt: skip


def replace_runtime(patch: pytest.MonkeyPatch) -> None:
    """Let live pages hold fake models in place of those that were trained, and fetch nothing."""
    from lesson import export, live  # import onnx

    def contents_of(path: Path, is_half: bool) -> tuple[dict[str, bytes], None]:
        assert is_half
        run = FAKE_RUNS[path.name.partition("-")[0]]
        files = {
            f"{name}.onnx": json.dumps(graph).encode() for name, graph in run["graphs"].items()
        }
        manifest = json.dumps(run["manifest"]).encode()
        return files | {"weights.bin": FAKE_WEIGHTS, "manifest.json": manifest}, None

    program = fake_worker(), b"\0asm", {"onnxruntime-web": "1.2.3"}
    patch.setattr(export, "contents_of", contents_of)
    patch.setattr(runtime, "build_runtime", lambda: program)
    patch.setattr(live, "LOADED_FIRST", ("gpt",))


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in a browser as slow."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Start the system's Chromium, or skip the test."""
    import playwright.sync_api

    names = "chromium", "chromium-browser", "google-chrome"
    if not (path := next(filter(None, map(shutil.which, names)), None)):
        pytest.skip("no Chromium on this machine")
    with playwright.sync_api.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site_folder(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with a live page of fake models."""
    built = make_once(tmp_path_factory, "lesson", lambda folder: build_site(folder, trained))
    return built / "site"


def build_site(folder: Path, trained: Path) -> None:
    """Build the site in a folder with a live page of the toy runs."""
    given = ["--out", folder / "site", "--live", trained, "--single-file"]
    with pytest.MonkeyPatch.context() as patch:
        replace_runtime(patch)
        assert exit_code(patch, seqmodels_command, "site", *given) == 0
