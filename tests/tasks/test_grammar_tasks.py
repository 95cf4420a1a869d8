"""Tasks on the grammar's sentences: the ladder to attention, and positions."""

import argparse
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Pairs, Run, Tiny, V, check_folder
from fake_records import fake_record, scored
from matplotlib.colors import to_hex
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import BOS, EOS, SequenceModel, build
from seqmodels.data.batches import Example
from seqmodels.evaluation.intervals import wilson_interval
from seqmodels.experiments.specs import count_parameters, make_spec, model_sizes
from seqmodels.models import papers
from seqmodels.report import style
from tasks.ladder import __main__ as ladder
from tasks.ladder import figure
from tasks.ladder.measure import accuracy_by_place
from tasks.positions import __main__ as positions

# --------------------------------------------------------------------------------------- The ladder
KINDS = ["last", "dot", "general", "additive"]
FED = [f"lstm_seq2seq_{kind}{fed}" for kind in KINDS for fed in ("", "_fed")]
NAMES = ["lstm_seq2seq", "lstm_seq2seq_forward", *FED]


@torch.no_grad()
def naive(model: SequenceModel, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits (T, V) and weights (T, S) of one source, word by word, for one layer."""
    cfg, D = model.config, model.config.d_model
    (read,), (write,) = model.encoder.layers, model.decoder.layers
    n = len(src) - int(src[-1] == EOS)
    places_read = [*(range(n - 1, -1, -1) if cfg.is_reversed else range(n)), *range(n, len(src))]
    h, c, memory = torch.zeros(1, D).double(), torch.zeros(1, D).double(), {}
    for s in places_read:
        h, c = read.unit(read.W(model.embed(src[s : s + 1])), h, c)
        memory[s] = h[0]
    last, fed = memory[places_read[-1]], torch.zeros(1, D).double()
    logits, weights = [], []
    for y in tgt_in:
        e = model.embed(y.view(1))
        h, c = write.unit(write.W(torch.cat([e, fed], 1) if cfg.is_input_feeding else e), h, c)
        if cfg.attention == "last":
            context = last
        else:
            a, places = model.attention, range(len(src))
            if cfg.attention == "dot":
                scores = [h[0] @ memory[s] for s in places]
            elif cfg.attention == "general":
                scores = [h[0] @ (a.W_a.weight @ memory[s]) for s in places]
            else:
                W = torch.cat([a.W_a.weight, a.U_a.weight], 1)  # the paper's one matrix
                both = [torch.cat([h[0], memory[s]]) for s in places]
                scores = [a.v_a.weight[0] @ torch.tanh(W @ pair) for pair in both]
            alpha = torch.stack(scores).exp()
            alpha = alpha / alpha.sum()  #                                                 eq. (7)
            context = sum(a * memory[s] for s, a in enumerate(alpha))
            weights.append(alpha)
        fed = torch.tanh(model.W_c.weight @ torch.cat([context, h[0]])).unsqueeze(0)  #    eq. (5)
        logits.append(model.output(fed)[0])
    return torch.stack(logits), torch.stack(weights) if weights else torch.empty(0)


@pytest.mark.parametrize("name", FED)
@pytest.mark.parametrize(("end", "is_reversed"), [(EOS, True), (7, True), (EOS, False)])
def test_a_rung_is_its_equations(name: str, end: int, is_reversed: bool, tiny: Tiny) -> None:
    """Keeps out another score, the state before the update, and weights in reading order."""
    model = tiny(name, n_layers=1, is_reversed=is_reversed)
    src, tgt_in = torch.tensor([4, 9, 5, 6, end]), torch.tensor([BOS, 5, 8, 4])
    logits, weights = naive(model, src, tgt_in)
    given = src[None], torch.ones(1, 5, dtype=torch.bool), tgt_in[None]
    assert_close(model(*given)[0], logits, rtol=0, atol=1e-5)
    if "last" in name:
        assert model.cross_attentions == []
    else:
        assert_close(model.align(*given)[0], weights, rtol=0, atol=1e-5)


def test_without_a_context_vector_it_is_the_chapter(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a copied encoder or decoder that drifts from the published model."""
    published = tiny("lstm_seq2seq")
    ground = tiny("lstm_seq2seq_last", attention="none")
    ground.load_state_dict(published.state_dict())
    assert_close(ground(*pairs), published(*pairs))


class Fixed(SequenceModel):
    """Writes the same tokens whatever the source is."""

    def __init__(self, tokens: list[int]):
        super().__init__(None)
        self.logits = nn.Parameter(nn.functional.one_hot(torch.tensor(tokens), V).float())

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return self.logits[: tgt_in.shape[1]].expand(len(src), -1, -1)


def test_places_are_counted_by_hand() -> None:
    """Keeps out pads that are counted, quarters of the batch's width, and one quarter for all."""
    examples = [Example([5], [4, 5, 6, 7, 8, 9, 10, 4]), Example([5], [4, 8]), Example([6], [7])]
    model = Fixed([4, 5, 6, 6, 8, 4, 4, 4])
    rows = accuracy_by_place(examples, model, model)
    # quarters of 8: right right | right wrong | right wrong | wrong right; of 2: right | wrong
    assert [row["n"] for row in rows] == [2 + 1 + 1, 2, 2 + 1, 2]
    assert [row["accuracy"] for row in rows] == pytest.approx([75, 50, 100 / 3, 50])


def test_seeds_widen_the_gain() -> None:
    """Keeps out an interval that forgets the seeds: with many words, Student's t of two each."""

    def gain(*shifts: float, n: int) -> list[float]:
        runs = {
            name: [{"analyses": {"places": [{"accuracy": mean + x, "n": n}]}} for x in shifts]
            for name, mean in ((figure.REVERSED, 81), (figure.FORWARD, 71))
        }
        return [end for (end,) in figure.compute_gains(runs)]

    value, low, high = gain(0, n=100)
    ends = [wilson_interval(mean / 100, 100) for mean in (81, 71)]
    assert (value, high - low) == (10, pytest.approx(100 * math.dist(*zip(*ends, strict=True))))
    half = 12.7062 * 2**0.5
    assert gain(-1, 1, n=10**9) == pytest.approx([10, 10 - half, 10 + half], rel=1e-4)


def test_biases_are_those_of_the_records() -> None:
    """Keeps out reversal taken for its lack, a bias for the other, and the loss of one bucket."""
    sizes = ((True, 0.0), (True, 2.0), (False, 0.0), (False, 2.0))
    records = []
    for seed, (is_reversed, bias) in product((1, 2, 3), sizes):
        name = "lstm_seq2seq" if is_reversed else "lstm_seq2seq_forward"
        one = fake_record(name, seed)
        one["model_config"] |= {"is_reversed": is_reversed, "forget_bias": bias}
        one["tests"][0]["overall"]["nats"]["value"] = seed + 10 * bias + 100 * is_reversed
        records.append(one)
    (drawn,) = figure.draw(records).values()
    for ax, offset in zip(drawn.figure.axes, (0, None), strict=True):
        lines = [line for line in ax.lines if line.get_linestyle() != "None"]
        forward, reverse = (list(line.get_ydata()) for line in lines)
        if offset == 0:
            assert (forward, reverse) == ([2, 22], [102, 122])
        points = [line.get_ydata() for line in ax.lines if line.get_linestyle() == "None"]
        assert [len(values) for values in points] == [3] * 4
        assert forward + reverse == pytest.approx([values.mean() for values in points])


def test_the_ladder_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a rung that the harness cannot train, search, score, measure or draw."""
    names = ["lstm_seq2seq", "lstm_seq2seq_forward", "lstm_seq2seq_dot_fed"]
    assert run(ladder, "--models", *names, "--out", tmp_path) == 0
    records = check_folder(tmp_path, names)
    rungs = [("none", False), ("forward", False), ("dot", True)]
    assert [figure.identify_rung(r) for r in records] == rungs
    for r in records:
        (test,) = r["tests"]
        n_trained = sum(b["n"] for b in test["buckets"] if b["high"] <= test["max_train_length"])
        assert sum(row["n"] for row in r["analyses"]["places"]) > 3 * n_trained
    assert (tmp_path / "rungs.svg").exists()
    assert (tmp_path / "places.svg").exists()


@pytest.mark.parametrize("size", ["smoke", "full"])
def test_rungs_alone_differ(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a difference in parameters, rate or start that would pass for one of rungs."""
    monkeypatch.setitem(ladder.SIZES, size, ladder.SIZES[size] | {"n_train": 200, "n_valid": 10})
    task = ladder.make_task(argparse.Namespace(size=size, tokens=None, to="attention"))
    sizes = {name: model_sizes(make_spec(name), task) for name in NAMES}
    counts = [count_parameters(build(name, **sizes[name])) for name in NAMES]
    assert max(counts) / min(counts) < 1.1
    for own in sizes.values():
        for switch in ("attention", "is_input_feeding", "is_reversed", "d_model"):
            own.pop(switch, None)
    assert len({str(own) for own in sizes.values()}) == 1
    assert [task.recipe(name) for name in NAMES] == [ladder.RECIPES[name] for name in NAMES]
    assert len({task.recipe(name).lr for name in NAMES}) == 1
    assert set(ladder.PARSER.parse_args(["--size", size]).models) == {*NAMES}


LAST, DOT, DOT_FED = "lstm_seq2seq_last", "lstm_seq2seq_dot", "lstm_seq2seq_dot_fed"
SCORES = {
    "lstm_seq2seq": [60.0, 20.0, 5.0], "lstm_seq2seq_forward": [50.0, 18.0, 4.0],
    LAST: [65.0, 31.0, 6.0], DOT: [90.0, 80.0, 40.0], DOT_FED: [95.0, 88.0, 60.0],
}  # fmt: skip


def climbed(shift: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    """Make a record per rung: 11–20 words are the longest trained of three buckets."""
    records = scored({m: [v + shift for v in s] for m, s in SCORES.items()}, trained=20, half=2.0)
    for r in records:
        r["seed"], r["model_config"] = seed, dict(papers()[r["model"]].sizes)
    return records


def test_a_bar_is_its_rung_and_bucket() -> None:
    """Keeps out a bar of another bucket or rung, and one seed drawn for the mean."""
    left, right = figure.draw_rungs([*climbed(), *climbed(2.0, 2)]).figure.axes
    at = {"lstm_seq2seq_forward": 0, "lstm_seq2seq": 1, LAST: 2, DOT: 2.8, DOT_FED: 3.2}
    for ax, place in ((left, 1), (right, 2)):
        expected = {
            (style.line_styles_for([m])[m].colour, x): SCORES[m][place] + 1 for m, x in at.items()
        }
        bars = {}
        for bar in ax.patches:
            colour = to_hex(bar.get_facecolor()).upper()
            bars[colour, round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
        assert bars == pytest.approx(expected)
    assert "11–20" in left.get_title("left")
    assert "21–30" in right.get_title("left")


# ---------------------------------------------------------------------------------------- Positions
POSITIONS = ["sinusoids", "learned", "rotary", "none"]
BY_POSITION = [f"transformer_{kind}" for kind in POSITIONS]


@pytest.mark.parametrize("size", ["smoke", "laptop", "full"])
def test_positions_alone_differ(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a difference in size, rate or layers, and a test of lengths trained on."""
    few = positions.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(positions.SIZES, size, few)
    task = positions.make_task(argparse.Namespace(size=size, tokens=None))
    sizes = {name: model_sizes(make_spec(name), task) for name in BY_POSITION}
    counts = [count_parameters(build(name, **sizes[name])) for name in BY_POSITION]
    assert max(counts) / min(counts) < 1.1
    assert [own.pop("positions") for own in sizes.values()] == POSITIONS
    assert len({own.pop("d_model") for own in sizes.values()}) <= 2  # a table of positions is small
    assert len({str(own) for own in sizes.values()}) == 1
    assert len({task.recipe(name).lr for name in BY_POSITION}) == 1
    assert positions.PARSER.parse_args(["--size", size]).models == BY_POSITION
    (test,) = task.tests
    longest = max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples)
    n_positions = {task.recipe(name).sizes["n_positions"] for name in BY_POSITION}
    assert longest <= min(n_positions)
    if size != "smoke":
        assert min(n_positions) < 1.3 * longest
        assert test.max_train_length == 20
        assert sum(low > 20 for low, _ in test.buckets) == 8
        inside = [sum(low <= x <= high for x in test.x) for low, high in test.buckets]
        assert min(inside) >= 15
        assert sum(inside) == len(test.x) == 6 * positions.SIZES[size]["per_bucket"]
