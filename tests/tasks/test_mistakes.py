"""Mistakes: losses in three ways."""

import pytest
import torch.nn.functional as F
from conftest import RESULTS, Tiny

from seqmodels import EOS
from seqmodels.data.batches import Example, collate
from seqmodels.records.io import load
from tasks.mistakes import __main__ as mistakes
from tasks.mistakes import measure

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


def test_mistakes_are_trained_as_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"n_train": 40, "n_valid": 9, "max_train": 10, "max_test": 10, "per_bucket": 3}
    monkeypatch.setitem(mistakes.DEFAULT_SIZES, "laptop", few)
    task = mistakes.make_task(mistakes.PARSER.parse_args([]))
    assert task.measure["losses"].keywords["examples"] == task.valid
    for name in mistakes.MODELS:
        made = load(RESULTS / "mistakes" / f"{name}-seed4.json")
        settings = {field: getattr(made.train_config, field) for field in task.training}
        assert (made.task, settings) == (task.name, task.training)
        bases = [base for model, base in task.contrasts if model == name]
        assert [*(made.contrasts or ())] == bases == ["transformer"] * (name != "transformer")


def test_a_loss_is_the_mean_over_the_tokens(tiny: Tiny) -> None:
    model, nats = tiny("transformer"), 0.0
    for example in EXAMPLES:
        src, mask, tgt_in, tgt_out = collate([example])
        logits = model(src, mask, tgt_in)[0]
        nats += F.cross_entropy(logits, tgt_out[0], reduction="sum").item()
    for row in measure.measure_losses(model, model, EXAMPLES):
        assert row["nats"] == pytest.approx(nats / 12)  # 4, 3 and 5 tokens
