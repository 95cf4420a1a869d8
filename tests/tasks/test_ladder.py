"""Steps from one vector to attention."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from conftest import V
from fake_records import as_records, fake_record, scored
from matplotlib.colors import to_hex
from torch import Tensor, nn

from seqmodels import SequenceModel
from seqmodels.data.batches import Example
from seqmodels.evaluation.intervals import wilson_interval
from seqmodels.models import paper_of
from tasks.ladder import figure
from tasks.ladder.measure import accuracy_by_place


class Fixed(SequenceModel):
    """Writes the same tokens whatever the source is."""

    def __init__(self, tokens: list[int]):
        super().__init__(None)
        self.logits = nn.Parameter(nn.functional.one_hot(torch.tensor(tokens), V).float())

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return self.logits[: tgt_in.shape[1]].expand(len(src), -1, -1)


def test_accuracy_by_quarter_of_each_target() -> None:
    """Quarters are of each target, not of the batch; pads count in none."""
    examples = [Example([5], [4, 5, 6, 7, 8, 9, 10, 4]), Example([5], [4, 8]), Example([6], [7])]
    model = Fixed([4, 5, 6, 6, 8, 4, 4, 4])
    rows = accuracy_by_place(examples, model, model)
    # quarters of 8: right right | right wrong | right wrong | wrong right; of 2: right | wrong
    assert [row["n"] for row in rows] == [2 + 1 + 1, 2, 2 + 1, 2]
    assert [row["accuracy"] for row in rows] == pytest.approx([75, 50, 100 / 3, 50])


def test_seeds_widen_the_gain() -> None:
    """With many words, the interval is that of Student's t over the seeds."""

    def gain(*shifts: float, n: int) -> list[float]:
        runs = {}
        for name, mean in ((figure.REVERSED, 81), (figure.FORWARD, 71)):
            places = [{"places": [{"accuracy": mean + x, "n": n}]} for x in shifts]
            runs[name] = as_records(fake_record(name, 1) | {"analyses": rows} for rows in places)
        return [end for (end,) in figure.compute_gains(runs)]

    value, low, high = gain(0, n=100)
    ends = [wilson_interval(mean / 100, 100) for mean in (81, 71)]
    assert (value, high - low) == (10, pytest.approx(100 * math.dist(*zip(*ends, strict=True))))
    half = 12.7062 * 2**0.5
    assert gain(-1, 1, n=10**9) == pytest.approx([10, 10 - half, 10 + half], rel=1e-4)


def test_biases_are_those_of_the_records() -> None:
    sizes = ((True, 0.0), (True, 2.0), (False, 0.0), (False, 2.0))
    records = []
    for seed, (is_reversed, bias) in product((1, 2, 3), sizes):
        name = "lstm_seq2seq" if is_reversed else "lstm_seq2seq_forward"
        one = fake_record(name, seed)
        one["model_config"] |= {"is_reversed": is_reversed, "forget_bias": bias}
        one["tests"][0]["overall"]["nats"]["value"] = seed + 10 * bias + 100 * is_reversed
        records.append(one)
    (drawn,) = figure.draw(as_records(records)).values()
    for ax, offset in zip(drawn.axes, (0, None), strict=True):
        lines = [line for line in ax.lines if line.get_linestyle() != "None"]
        forward, reverse = (list(line.get_ydata()) for line in lines)
        if offset == 0:
            assert (forward, reverse) == ([2, 22], [102, 122])
        points = [line.get_ydata() for line in ax.lines if line.get_linestyle() == "None"]
        assert [len(values) for values in points] == [3] * 4
        assert forward + reverse == pytest.approx([values.mean() for values in points])


LAST, DOT, DOT_FED = "lstm_seq2seq_last", "lstm_seq2seq_dot", "lstm_seq2seq_dot_fed"
SCORES = {
    "lstm_seq2seq": [60.0, 20.0, 5.0], "lstm_seq2seq_forward": [50.0, 18.0, 4.0],
    LAST: [65.0, 31.0, 6.0], DOT: [90.0, 80.0, 40.0], DOT_FED: [95.0, 88.0, 60.0],
}  # fmt: skip


def climbed(shift: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    """Make a record per rung: 11–20 words are the longest trained of three buckets."""
    records = scored({m: [v + shift for v in s] for m, s in SCORES.items()}, trained=20, half=2.0)
    for r in records:
        r["seed"], r["model_config"] = seed, dict(paper_of(r["model"]).sizes)
    return records


def test_a_bar_is_its_rung_and_bucket() -> None:
    left, right = figure.draw_rungs(as_records([*climbed(), *climbed(2.0, 2)])).axes
    at = {"lstm_seq2seq_forward": 0, "lstm_seq2seq": 1, LAST: 2, DOT: 2.8, DOT_FED: 3.2}
    for ax, place in ((left, 1), (right, 2)):
        expected = {
            (figure.FED[m == DOT_FED].colour, x): SCORES[m][place] + 1 for m, x in at.items()
        }
        bars = {}
        for bar in ax.patches:
            colour = to_hex(bar.get_facecolor()).upper()
            bars[colour, round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
        assert bars == pytest.approx(expected)
    assert "11–20" in left.get_title()
    assert "21–30" in right.get_title()
