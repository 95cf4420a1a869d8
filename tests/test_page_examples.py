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


def test_runs_are_aligned(tmp_path: Path) -> None:
    """Keeps out a sentence beside another's, other scores than sacreBLEU's, and summed losses."""
    said, ref = "The cat sat there .", "The cat sits there ."
    a = rows.read(
        write(tmp_path / "a.jsonl", row(), row(set="greedy", src="q"), row(src="d", ref=ref))
    )
    b = rows.read(write(tmp_path / "b.jsonl", row(hyp="z"), row(src="d", hyp=said, ref=ref)))
    first, second = rows.side_by_side({"a": a, "b": b}, TEST, "13a")
    assert (first["src"], first["hyps"]) == ("a b c", ["x y", "z"])
    assert (second["src"], second["hyps"]) == ("d", ["x y", said])
    with pytest.raises(ValueError, match="a and b have other examples of the test 'length'"):
        rows.side_by_side({"a": a, "b": b[:1]}, TEST, "13a")
    ((scores,),) = (e["scores"] for e in rows.side_by_side({"b": b[1:]}, TEST, "13a"))
    bleu = BLEU(effective_order=True).sentence_score(said, [ref]).score
    chrf = CHRF().sentence_score(said, [ref]).score
    assert scores == {"bleu": round(bleu, 1), "chrf": round(chrf, 1), "nats": 1.5}
    assert bleu > 20


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
