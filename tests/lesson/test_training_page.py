"""The page that trains three models: its graphs in onnxruntime and in Chromium, beside torch."""

from collections.abc import Iterable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import numpy as np
import onnxruntime
import pytest
import torch
from browser import PHONE, Quiet, Tab, table_of
from test_live_page import run_script
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from lesson import training_page as training
from seqmodels import BOS, EOS, PAD, build

SCRIPT = """
import sys
from pathlib import Path
from lesson import layout, training_page as training
from lesson.live import write_parts
training.N_PAIRS, training.MAX_WORDS, training.MAX_STEPS = 4, 3, 30
for sizes in training.SIZES.values():
    sizes |= {name: min(6, size) for name, size in sizes.items()}
folder, protos = Path(sys.argv[1]), {}
for name, model in training.make_models().items():
    protos[type(model)] = training.trace(model)
    (folder / f"{name}.onnx").write_bytes(protos[type(model)].SerializeToString())
training.trace = lambda model: protos[type(model)]
try:
    content = training.describe({})
    (folder / "training.html").write_text(layout.render("training.html", **content))
    parts = {name: content["parts"][name] for name in ("worker", "wasm")}
    content = training.describe(write_parts(folder, parts))
    text = layout.render("training.html", here="shared", **content)
    (folder / "shared.html").write_text(text)
except ValueError as error:
    print(error)
"""
"""Write graphs and pages of small models, one with its runtime beside it, or why there are none."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder of the graphs and the page, and the reason if there is no page."""
    folder = tmp_path_factory.mktemp("training")
    return folder, run_script(SCRIPT, folder)


def build_small(name: str) -> Any:
    """Return one of these models with its initial weights."""
    torch.manual_seed(training.SEED)
    sizes = {field: min(6, size) for field, size in training.SIZES[name].items()}
    return build(name, 14, **sizes).eval()


def flatten(model: Any) -> np.ndarray:
    return parameters_to_vector(model.parameters()).detach().numpy()


def make_batch(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return sentences of at most 3 tokens and their copies."""
    src = [[*words, PAD, PAD][:3] for words in sentences]
    return torch.tensor(src), torch.tensor(
        [[BOS, *words, EOS, PAD, PAD][:5] for words in sentences]
    )


def train(model: Any, batches: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Any, ...]]:
    """Yield loss, likeliest tokens and weights of each step of torch's Adam."""
    adam = torch.optim.Adam(model.parameters(), training.LEARNING_RATE, training.BETAS)
    for src, tgt in batches:
        tgt_out, logits = tgt[:, 1:], model(src, src != PAD, tgt[:, :-1])
        loss = F.cross_entropy(logits[tgt_out != PAD], tgt_out[tgt_out != PAD])
        adam.zero_grad()
        loss.backward()
        adam.step()
        yield loss.item(), logits.argmax(-1).numpy(), flatten(model)


def test_models_have_about_as_many_parameters() -> None:
    counts = [sum(p.numel() for p in m.parameters()) for m in training.make_models().values()]
    assert max(counts) < 1.02 * min(counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", training.SIZES)
def test_steps_are_those_of_torch(name: str, built: Any) -> None:
    graph, draw = onnxruntime.InferenceSession(built[0] / f"{name}.onnx"), np.random.default_rng(3)
    lengths = [(1, 3, *draw.integers(1, 4, 2)) for _ in range(100)]
    batches = [make_batch([draw.integers(4, 14, n).tolist() for n in its]) for its in lengths]
    model, first = build_small(name), 0.0
    for p in model.parameters():  # Adam divides gradients that are all rounding, as of W_a
        p.data.add_(torch.randn_like(p), alpha=0.1)
    theta = flatten(model)
    state = {"theta": theta, "m": 0 * theta, "v": 0 * theta, "t": np.zeros((), np.float32)}
    for (src, tgt), (loss, best, theta) in zip(batches, train(model, batches), strict=True):
        given = {"src": src.numpy(), "tgt": tgt.numpy(), **state}
        found, found_best, *after = graph.run(None, given)
        state = dict(zip(training.STATE, after, strict=True))
        first = first or loss
        assert float(found) == pytest.approx(loss, abs=1e-4)
        assert np.abs(state["theta"] - theta).max() < 1e-4
        assert (found_best == best).all()
    assert loss < first


def finish(tab: Tab) -> list[Any]:
    """Train to the end; return all sentences, and the address of the losses."""
    tab.page.click("#train")
    tab.wait_until("history.length === 30")
    return tab.page.evaluate("[history.map((s) => s.sentences), query('#losses-csv').href]")


@pytest.mark.slow
def test_the_page_trains_as_torch_does(chromium: Any, built: Any) -> None:
    folder, reason = built
    if not (folder / "training.html").exists():
        pytest.skip(reason)
    tab = Tab(chromium, folder / "training.html", **PHONE)
    tab.page.wait_for_selector("#train:enabled", timeout=120_000)
    sentences, address = finish(tab)
    losses = np.array([row[1:] for row in table_of(address)[1:]], dtype=float)
    for i, model in enumerate(map(build_small, training.SIZES)):
        steps = [*train(model, map(make_batch, sentences))]
        assert losses[:, i] == pytest.approx([loss for loss, *_ in steps], abs=1e-4)
        points = tab.page.get_attribute(f"#losses polyline:nth-of-type({i + 1})", "points")
        assert len({*points.split()}) == 30
    tab.check_isolation()
    tab.check_access()
    assert tab.width() == 390
    tab.page.click("#again")
    assert finish(tab) == [sentences, address]
    tab.context.close()


@pytest.mark.slow
def test_a_page_shares_its_runtime_on_a_server(chromium: Any, built: Any) -> None:
    folder, reason = built
    if not (folder / "shared.html").exists():
        pytest.skip(reason)
    tab = Tab(chromium, folder / "shared.html")
    tab.page.wait_for_selector("#failed:not([hidden])")
    assert "opened from a disk" in tab.text("#why")
    assert "http://localhost:8000/shared.html" in tab.text("#served")
    assert not tab.page.locator("#train").is_visible()
    tab.context.close()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/shared.html"
        tab = Tab(chromium, Mock(as_uri=lambda: address))
        tab.page.wait_for_selector("#train:enabled", timeout=120_000)
        tab.page.click("#train")
        tab.wait_until("history.length > 1")
        server.shutdown()
    assert [url.rsplit("/")[-1].partition("?")[0] for url in tab.requests if "blob" not in url] == [
        "shared.html", "live-worker.bin", "live-wasm.bin"
    ]  # fmt: skip
    assert tab.messages == []
    sizes = [(folder / f"{name}.html").stat().st_size for name in ("training", "shared")]
    assert sizes[1] < sizes[0] - 3e6
    tab.context.close()
