"""Mistakes: losses in three ways, and figures of records."""

import re
from typing import Any

import pytest
import torch.nn.functional as F
from conftest import Tiny
from fake_records import as_records, fake_record

from seqmodels import EOS
from seqmodels.data.batches import Example, collate
from seqmodels.report import style
from tasks.mistakes import __main__ as mistakes
from tasks.mistakes import figure, measure

EXAMPLES = [
    Example([5, 6, 7, EOS], [8, 9, 10, EOS]),
    Example([9, 8, 6, 5, 7, EOS], [4, 7, EOS]),
    Example([6, EOS], [10, 5, 8, 4, EOS]),
]


@pytest.mark.parametrize(
    ("mistake", "is_ahead", "is_padded"),
    [
        ("", False, False), ("_one_projection", False, False), ("_no_causal_mask", True, False),
        ("_no_bos", True, False), ("_pads", False, True), ("_finite_mask", True, True),
        ("_score_mask", True, True), ("_weight_mask", True, True), ("_wrong_axis", True, False),
    ],
)  # fmt: skip
def test_losses_differ_where_the_future_or_pads_are_seen(
    mistake: str, is_ahead: bool, is_padded: bool, tiny: Tiny
) -> None:
    model = tiny(f"transformer{mistake}")
    losses = {row["way"]: row["nats"] for row in measure.measure_losses(model, model, EXAMPLES)}
    assert (losses["at once"] != pytest.approx(losses["by steps"], rel=1e-6)) == is_ahead
    if mistake != "_wrong_axis":  # pads are queries, too: their number counts in the encoder
        assert (losses["at once"] != pytest.approx(losses["padded"], rel=1e-9)) == is_padded


def test_a_loss_is_the_mean_over_the_tokens(tiny: Tiny) -> None:
    model, nats = tiny("transformer"), 0.0
    for example in EXAMPLES:
        src, mask, tgt_in, tgt_out = collate([example])
        logits = model(src, mask, tgt_in)[0]
        nats += F.cross_entropy(logits, tgt_out[0], reduction="sum").item()
    for row in measure.measure_losses(model, model, EXAMPLES):
        assert row["nats"] == pytest.approx(nats / 12)  # 4, 3 and 5 tokens


def fake(model: str, seed: int, shift: float) -> dict[str, Any]:
    r = fake_record("transformer", seed) | {"model": model, "task": "mistakes"}
    r["hypotheses"] = f"{model}-seed{seed}.jsonl"
    for point in r["curve"]:
        point["valid_nats"] += shift
    r["tests"][0]["overall"]["bleu"] = {"value": 40 + shift, "low": 30, "high": 50}
    ways = {"at once": 1.0, "by steps": 2.0, "padded": 4.0}
    losses = [{"way": way, "nats": n + shift} for way, n in ways.items()]
    return r | {"analyses": {"losses": losses}}


def test_each_mistake_is_drawn_beside_its_sound_model() -> None:
    fields = [fake(m, seed, i + seed / 8) for i, m in enumerate(mistakes.MODELS[:4])
              for seed in (1, 2)]  # fmt: skip
    fields += [fake("gpt", 1, 9.0)]  # alone
    records = as_records(fields)
    with style.context():
        drawn = figure.draw(records)
        alone = figure.draw(as_records([fake("gpt", 1, 0.0)]))
    assert [*drawn] == ["mistakes", "losses"]
    assert [*alone] == ["losses"]
    titles = [ax.get_title("left") for ax in drawn["mistakes"].axes if ax.lines]
    assert [re.findall(r"\d+", title.rpartition("\n")[2]) for title in titles] == [
        ["41", "40"], ["42", "40"], ["43", "40"],
    ]  # fmt: skip
    first = next(ax for ax in drawn["mistakes"].axes if ax.lines)
    starts = [line.get_ydata()[0] for line in first.lines]
    assert starts[1] - starts[0] == pytest.approx(1)
    (losses,) = drawn["losses"].axes
    assert sum(len(line.get_xdata()) for line in losses.lines) == 9 * 3
