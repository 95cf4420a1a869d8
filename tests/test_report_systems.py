"""The page of systems that were trained elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Call
from sacrebleu.metrics import BLEU
from test_report_page import data_of

from seqmodels.cli import main
from seqmodels.site import rows

TEXTS = {
    "src": ["the cat sees a dog", "no", "", "one two three four five six seven"],
    "ref": ["Die Katze sieht einen Hund.", "Nein.", "", "Eins zwei drei vier fünf sechs sieben."],
    "good": ["die katze sieht einen Hund.", "Nein!", "", "Eins zwei drei vier sechs sieben."],
    "poor": ["Eine Katze sah einen Hund.", "Nein.", "", "Eins zwei vier drei fünf sechs."],
}


@pytest.fixture
def scored(call: Call, tmp_path: Path) -> Any:
    """Return a function that scores the texts: what the page holds, and the JSON."""
    for name, lines in TEXTS.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    given = ["--ref", tmp_path / "ref", "--src", tmp_path / "src"]
    given += [tmp_path / "good", tmp_path / "poor", "--buckets", "3,6"]

    def score(*flags: object) -> tuple[dict[str, Any], dict[str, Any]]:
        code, out, _ = call(main, "score", *given, *flags, "--out", tmp_path / "out")
        assert code == 0
        page = tmp_path / "out" / "report.html"
        assert str(page) in out
        (folder,) = data_of(page)["folders"]
        return folder, json.loads((tmp_path / "out" / "score.json").read_text(encoding="utf-8"))

    return score


def test_sentences_of_systems(scored: Any) -> None:
    """Keeps out a sentence under another system or in another bucket, and a blank one."""
    folder, result = scored()
    (test,) = folder["tests"]
    assert [run["label"] for run in folder["runs"]] == ["good", "poor"]
    buckets = [(b["low"], b["high"], b["n"]) for b in result["systems"][0]["buckets"]]
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == buckets
    assert [(e["x"], e["src"]) for e in test["examples"]] == [
        (len(line.split()), line) for line in TEXTS["src"] if line
    ]
    for e in test["examples"]:
        i = TEXTS["src"].index(e["src"])
        assert e["hyps"] == [TEXTS["good"][i], TEXTS["poor"][i]]
        assert e["ref"] == TEXTS["ref"][i]
    assert test["maps"] is None


def test_case_counts_as_in_the_scores(scored: Any) -> None:
    """Keeps out sentence scores with other settings than the corpus score's."""
    metric = BLEU(effective_order=True, lowercase=True)
    expected = metric.sentence_score(TEXTS["good"][0], [TEXTS["ref"][0]]).score
    folded, exact = (scored(*flags)[0]["tests"][0] for flags in (("--lowercase",), ()))
    assert folded["examples"][0]["scores"][0][0] == round(expected, 1) == 100
    assert exact["examples"][0]["scores"][0][0] < 100
    char = scored("--tokenize", "char")[0]["tests"][0]["examples"][0]["scores"][0][0]
    by_char = BLEU(effective_order=True, tokenize="char")
    assert char == round(by_char.sentence_score(TEXTS["good"][0], [TEXTS["ref"][0]]).score, 1)


def test_the_page_is_a_sample(scored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a page of a whole corpus."""
    monkeypatch.setattr(rows, "MAX_EXAMPLES_PER_BUCKET", 1)
    for name, lines in TEXTS.items():
        monkeypatch.setitem(TEXTS, name, lines[:1] * 3)
    (test,) = scored()[0]["tests"]
    assert len(test["examples"]) == len([b for b in test["buckets"] if b["n"]])
