"""The page that trains three models: its graphs in onnxruntime and in Chromium, beside torch."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import PHONE, Tab
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
except ValueError as error:
    print(error)
"""
"""Write graphs and a page of small models, or why there is none."""


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
    adam = torch.optim.Adam(model.parameters(), 0.005, (0.9, 0.98))
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


def test_steps_are_those_of_torch() -> None:
    batches = [make_batch([[4, 5], [6, 7, 8]]), make_batch([[9], [7, 4, 10]])] * 2
    start = torch.from_numpy(flatten(build_small("bahdanau")))
    state, steps = [start, torch.zeros_like(start), torch.zeros_like(start), torch.zeros(())], []
    for batch in batches:
        loss, best, *state = training.train_step(build_small("bahdanau"), *batch, *state)
        steps.append((loss.item(), best.tolist(), state[0].numpy(), state[3].item()))
    expected = train(build_small("bahdanau"), batches)
    for t, (step, right) in enumerate(zip(steps, expected, strict=True), 1):
        assert (step[0], step[1], step[3]) == (pytest.approx(right[0]), right[1].tolist(), t)
        np.testing.assert_allclose(step[2], right[2], atol=1e-5)


@pytest.mark.slow
def test_the_page_trains_as_torch_does(chromium: Any, built: Any) -> None:
    folder, reason = built
    if not (folder / "training.html").exists():
        pytest.skip(reason)
    tab = Tab(chromium, folder / "training.html", **PHONE)
    tab.page.wait_for_selector("#train:enabled", timeout=120_000)
    tab.page.click("#train")
    tab.wait_until("history.length === 30")
    sentences, losses = tab.page.evaluate(
        "[history.map((s) => s.sentences), history.map((s) => s.steps.map((one) => one.loss))]"
    )
    for i, model in enumerate(map(build_small, training.SIZES)):
        steps = [*train(model, map(make_batch, sentences))]
        assert np.array(losses)[:, i] == pytest.approx([loss for loss, *_ in steps], abs=1e-4)
    tab.check_isolation()
    tab.check_access()
    assert tab.width() == 390
    tab.context.close()
