"""The examples of a page: the rows of several runs, side by side."""

import json
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU, CHRF

from seqmodels.site import rows

TEST = {"name": "length", "primary_metric": "bleu", "buckets": [{"low": 1, "high": 9}]}


def row(**changes: Any) -> dict[str, Any]:
    """Make a row as a run writes it."""
    row = {"set": "length", "x": 3, "src": "a b c", "ref": "x y z", "hyp": "x y", "nats": 6.0}
    return row | {"n_tokens": 4, "n_same": 2, "n_places": 3, "n_bytes": 6} | changes


def write(path: Path, *made: dict[str, Any]) -> Path:
    """Write rows as a run does."""
    path.write_text("".join(json.dumps(r) + "\n" for r in made), encoding="utf-8")
    return path


def test_sentence_scores(tmp_path: Path) -> None:
    """Keeps out another score than sacreBLEU's, and loss summed instead of averaged."""
    texts = "The cat sat there .", "The cat sits there ."
    read = rows.read(write(tmp_path / "a.jsonl", row(hyp=texts[0], ref=texts[1])))
    ((scores,),) = (example["scores"] for example in rows.side_by_side({"a": read}, TEST, "13a"))
    expected = BLEU(effective_order=True).sentence_score(texts[0], [texts[1]]).score
    assert scores["bleu"] == round(expected, 1) > 20
    assert scores["chrf"] == round(CHRF().sentence_score(texts[0], [texts[1]]).score, 1)
    assert scores["nats"] == 1.5
    assert [*scores] == ["bleu", "chrf", "nats"]


def test_runs_are_aligned(tmp_path: Path) -> None:
    """Keeps out one model's sentence beside another's, and rows of other test sets."""
    a = rows.read(write(tmp_path / "a.jsonl", row(), row(set="greedy", src="q"), row(src="d")))
    b = rows.read(write(tmp_path / "b.jsonl", row(hyp="z"), row(src="d", hyp="z z")))
    examples = rows.side_by_side({"a": a, "b": b}, TEST, "13a")
    assert [(e["src"], e["hyps"]) for e in examples] == [
        ("a b c", ["x y", "z"]),
        ("d", ["x y", "z z"]),
    ]
    with pytest.raises(ValueError, match="a and b have other examples of the test 'length'"):
        rows.side_by_side({"a": a, "b": b[:1]}, TEST, "13a")


def test_what_is_no_row(tmp_path: Path) -> None:
    """Keeps out a traceback for a file that is missing, cut off or edited by hand."""
    assert rows.read(tmp_path / "none.jsonl") == []
    for wrong, why in (
        (row(nats="much"), "nats"),
        ([1], "dictionary"),
        (row(nats=float("nan")), "nats"),
    ):
        path = write(tmp_path / "a.jsonl", row(), wrong)
        with pytest.raises(ValueError, match=rf"a\.jsonl, line 2: not a row of a run: .*{why}"):
            rows.read(path)
    path.write_text(json.dumps(row())[:-4], encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 1: not a row"):
        rows.read(path)
