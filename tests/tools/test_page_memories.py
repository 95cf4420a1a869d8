"""Paragraphs on memories: what they say of records."""

from typing import Any

import pytest
from fake_records import fake_record

from seqmodels.records.io import build
from seqmodels.records.schema import Record
from seqmodels.records.significance import Difference
from tools import numbers, page_memories
from tools.page_memories import DELTA, MAMBA, SUM


def score(model: str, seed: int, test: str, scores: dict[str, float]) -> Record:
    """Make a record with these scores by bucket; the baseline is a tenth of each."""
    fields: dict[str, Any] = fake_record(model, seed)
    parts = [
        {"low": int(x), "high": int(x), "n": 9}
        | {key: {"value": v, "low": v, "high": v} for key, v in
           (("exact_match", y), ("baseline", y / 10))}
        for x, y in scores.items()
    ]  # fmt: skip
    overall = {key: parts[0][key] for key in ("exact_match", "baseline")}
    own = {"name": test, "primary_metric": "exact_match", "buckets": parts, "overall": overall}
    return build(fields | {"tests": [fields["tests"][0] | own]})


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that puts the records of a folder in place of the committed ones."""

    def give(folder: str, *records: Record) -> None:
        by_model: dict[str, list[Record]] = {}
        for r in records:
            by_model.setdefault(r.model, []).append(r)
        monkeypatch.setattr(numbers, "load_runs", lambda _, model: by_model[model])
        own = {folder: [*by_model]}
        monkeypatch.setattr(page_memories, "list_recorded", lambda its: own.get(its.folder, []))

    return give


def test_moves_that_are_learned_and_the_farthest_are_named(
    give: Any, capsys: pytest.CaptureFixture
) -> None:
    moves = ("4", "8", "16", "32", "96")
    give(
        "tracking-3",
        *(score("lstm_seq2seq", s, "moves", dict(zip(moves, its, strict=True)))
          for s, its in ((1, (99, 98, 97, 96, 70)), (2, (99, 92, 91, 90, 60)))),
        score("gpt", 1, "moves", dict(zip(moves, (80, 40, 21, 19, 17), strict=True))),
        score(DELTA, 1, "moves", dict(zip(moves, (97, 89, 30, 20, 18), strict=True))),
    )  # fmt: skip
    page_memories.say_tracking()
    text = " ".join(capsys.readouterr().out.split())
    assert "seeds: 1 to 2" in text
    assert "90 % of the sources, on average, by LSTM seq2seq, by the others in 40 to 89 %." in text
    assert "LSTM seq2seq finds them most often, in 60 to 70 %, by seed; chance" in text
    assert "| LSTM seq2seq | 99 % | 95 % | 94 % | 93 % | 65 % |" in text
    assert "2 cups" not in text


def test_rules_have_their_scores_and_planned_differences(
    give: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    rules = dict(zip(page_memories.RULES, (40, 61, 82, 97), strict=True))
    records = [score(m, 1, "query", {"8": y, "16": y - 30}) for m, y in rules.items()]
    two = (
        score(SUM, 2, "query", {"8": 44.0, "16": 18.0}),
        score("gpt", 1, "query", {"8": 33.0, "16": 3}),
    )
    give("lookup-again", *records, *two, score(MAMBA, 1, "query", {"8": 51.0, "16": 12.0}))

    def difference(_: Any, row: str, column: str, bucket: str) -> Difference:
        value = rules[row] - rules[column] + (bucket == "16")
        high, p = (value, 0.01) if row == DELTA else (value + 50, 0.2)
        return Difference(value=value, low=value - 2, high=high, p=p)

    monkeypatch.setattr(numbers.Results, "difference", difference)
    page_memories.say_again()
    text = " ".join(capsys.readouterr().out.split())
    assert "adds up: 40.0 to 44.0 %, forgets: 61.0 %, corrects: 82.0 %" in text
    assert "average: adds up: 14 %, forgets: 31 %" in text
    assert "With 8 and 16: GPT 33 and 3 %; Mamba-2 51 and 12 %." in text
    assert "| forgets and corrects − adds up | **57.0 [55.0, 57.0]** | **58.0" in text
    assert "| corrects − adds up | 42.0 [40.0, 92.0] |" in text
    assert "memories answers 10.0 to 97.0 % of the queries" in text
    assert "Mamba-2 12 % with 16" in text
