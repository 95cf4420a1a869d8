"""The page of mistakes: what it says of records."""

from pathlib import Path
from typing import Any

import pytest
from fake_records import fake_record, metric, write

from seqmodels.records.significance import Difference
from tools import numbers, page_mistakes

PADS = "transformer_pads"


def fake(model: str, seed: int, loss: float, text: str) -> dict[str, Any]:
    r = fake_record("transformer", seed) | {"model": model, "task": "mistakes"}
    r["curve"] = [point | {"valid_nats": loss + 1} for point in r["curve"]]
    r["curve"][3]["valid_nats"] = loss
    test = r["tests"][0] | {"overall": {"bleu": metric(40 + seed, 1.0)}}
    ways = {"at once": loss, "by steps": loss + 2, "padded": loss + 4}
    losses = [{"way": way, "nats": nats, "accuracy": 50.0} for way, nats in ways.items()]
    texts = [{"source": "a b", "reference": "c d", "text": text}]
    return r | {"tests": [test], "analyses": {"losses": losses, "texts": texts}}


def test_the_page_says_what_the_records_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "RESULTS", tmp_path)
    monkeypatch.setattr(page_mistakes, "LISTED", [PADS])
    numbers.load_runs.cache_clear()
    long = " ".join(f"w{i}" for i in range(30))
    fakes = [fake("transformer", 1, 0.5, "c d"), fake("transformer", 2, 0.7, "c c")]
    fakes += [fake(PADS, 1, 0.25, long), fake(PADS, 3, 0.625, "d")]
    write(tmp_path / "mistakes", fakes)
    difference = Difference(value=0.5, low=-1.0, high=2.0, p=0.3)
    monkeypatch.setattr(numbers.Results, "difference", lambda self, row, column: difference)
    said = page_mistakes.describe(PADS)
    for words in (
        "0.250 to 0.625 nats per token, without the mistake 0.500 to 0.700: the two overlap.",
        "BLEU 42.0, without it 41.5: 0.5 [−1.0, 2.0], not significant.",
        "at once is 0.44, by steps 2.44, with more pads 4.44.",
        "w18 w19 …*",
    ):
        assert words in said
    assert "w20" not in said
    table = page_mistakes.mistake_table().split("\n")
    assert [cell.strip() for cell in table[3].split("|")[1:4]] == [
        "pads attended to", "0.250 to 0.625", "no",
    ]  # fmt: skip
    assert page_mistakes.shown_sentence().endswith("first seed writes: *c d*")
    numbers.load_runs.cache_clear()


def test_values_are_apart_where_they_do_not_overlap() -> None:
    assert page_mistakes.is_apart([1, 2], [3, 5])
    assert page_mistakes.is_apart([6], [3, 5])
    assert not page_mistakes.is_apart([4], [3, 5])
    assert not page_mistakes.is_apart([2, 6], [3, 5])
