"""Published figures: as they were printed, and beside ours only where they can be compared."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import RESULTS
from fake_records import fake_record, row

from seqmodels.evaluation.metrics import METRICS
from seqmodels.models import PAPERS
from seqmodels.report import figures, ledger, style


@pytest.fixture
def valid() -> dict[str, Any]:
    """Make a ledger of one entry that can be compared and one that cannot."""
    ours = {"folder": "records", "model": "bahdanau", "test": "length", "score": "bleu"}
    near = {
        "source": "Near", "year": 2014, "url": "https://example.org/near", "place": "table 9",
        "corpus": "Multi30k", "test": "test2016", "comparable": True, "why": "same data",
        "figures": [
            {"system": "theirs", "model": "bahdanau", "metric": "bleu", "value": "28.30",
             "parameters": 20_500_000, "ours": ours},
            {"system": "another", "model": "gpt", "metric": "bleu", "value": "30.0",
             "ours": ours | {"model": "gpt"}},
        ],
    }  # fmt: skip
    far = {
        "source": "Far", "corpus": "WMT14", "test": "newstest2014", "comparable": False,
        "why": "different data: WMT14", "finding": "It falls",
        "figures": [
            {"system": "one", "metric": "bleu", "on": "greedy", "value": "13.93"},
            {"system": "one", "metric": "bleu", "on": "beam 5", "value": "24.19"},
            {"system": "two", "metric": "bleu", "on": "beam 5", "value": "9.5"},
        ],
    }  # fmt: skip
    return {"schema": "seqmodels.ledger/1", "entries": [far, near]}


def save(folder: Path, content: Any) -> Path:
    """Write a ledger to a folder; return the folder."""
    (folder / "ledger.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_the_committed_ledger_compares_what_can_be_compared() -> None:
    """Keeps out ours beside theirs on other data, by another score or search."""
    data = {"Multi30k": "translation-multi30k", "shakespeare_char": "next_token-shakespeare"}
    for entry in ledger.load_ledger(RESULTS):
        assert entry.comparable == (entry.corpus in data), entry.source
        if entry.url and "arxiv.org" in entry.url:
            assert entry.place
            assert (entry.year or 0) % 100 == int(entry.url.split("/abs/")[1][:2])
        for f in entry.figures:
            if f.ours:
                to_german = "-en-de" if entry.direction == "en→de" else ""
                assert f.ours.folder == data[entry.corpus] + to_german
                assert f.ours.model == f.model in PAPERS
                assert f.ours.score == f.metric in METRICS
                searches = {"greedy": "greedy", "beam 5": "length", None: "whole"}
                assert f.ours.test == searches[entry.search]


@pytest.mark.slow
def test_the_committed_tables_are_those_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a README older than a record or the ledger, and a number typed into it."""
    monkeypatch.setattr(style, "save", lambda figure, path: path)
    for path in [*RESULTS.glob("*/*.json"), RESULTS / "ledger.json"]:
        copy = tmp_path / path.relative_to(RESULTS)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    figures.plot_results(tmp_path)
    for path in tmp_path.rglob("*.md"):
        committed = RESULTS / path.relative_to(tmp_path)
        assert path.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_our_scores_stand_beside_with_their_intervals(
    valid: dict[str, Any], tmp_path: Path
) -> None:
    """Keeps out another model's score, a score without its interval, or a size left out."""
    records = [fake_record("bahdanau", seed) for seed in (1, 2)]
    entries = ledger.load_ledger(save(tmp_path, valid))
    text = ledger.format_published_figures(entries, {"records": records})
    group = [r["tests"][0]["overall"]["bleu"] for r in records]
    value, low, high = (sum(c[k] for c in group) / 2 for k in ("value", "low", "high"))
    half = abs(group[0]["value"] - group[1]["value"]) / 2
    ours = f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}] (0.99 M)"
    assert row(text, "theirs") == ["theirs", "Bahdanau", "28.30 (20.5 M)", ours]
    assert row(text, "another")[2:] == ["30.0", "–"]
    assert "### [Near 2014](https://example.org/near), table 9" in text
    assert text.index("### [Near") < text.index("### Far")
    text = text[text.index("### Far") :]
    assert "different data: WMT14" in text
    assert row(text, "system") == ["system", "model here", "BLEU, greedy", "BLEU, beam 5"]
    assert row(text, "one") == ["one", "–", "13.93", "24.19"]
    assert row(text, "two") == ["two", "–", "–", "9.5"]
    assert text.endswith("\n\nIt falls.")


@pytest.mark.parametrize(("key", "value"), [("folder", "none"), ("test", "none"), ("score", None)])
def test_a_missing_record_is_a_dash(
    key: str, value: str | None, valid: dict[str, Any], tmp_path: Path
) -> None:
    """Keeps out a crash, or a zero, for a folder, test set or score that is not there yet."""
    record = fake_record("bahdanau", 1)
    if value is None:
        record["tests"][0]["overall"]["bleu"] |= dict.fromkeys(("value", "low", "high"))
    else:
        valid["entries"][1]["figures"][0]["ours"][key] = value
    entries = ledger.load_ledger(save(tmp_path, valid))
    text = ledger.format_published_figures(entries, {"records": [record]})
    assert row(text, "theirs")[2:] == ["28.30 (20.5 M)", "–"]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("why", None),
        ("beam", 5),
        ("url", "http://example.org"),
        ("why", "two | cells"),
        ("figures.0.value", "28,30"),
        ("figures.0.model", "mamba"),
        ("figures.0.metric", "meteor"),
        ("figures.0.ours.folder", "../up"),
    ],
)
def test_a_damaged_ledger_names_the_field(
    place: str, value: Any, valid: dict[str, Any], tmp_path: Path
) -> None:
    """Keeps out a traceback, an error without its place, and a field that is passed over."""
    assert len(ledger.load_ledger(save(tmp_path, valid))) == 2
    inner, keys = valid["entries"][1], place.split(".")
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    inner[keys[-1]] = value
    if value is None:
        del inner[keys[-1]]
    with pytest.raises(ValueError, match=r"ledger\.json is not a ledger: ") as error:
        ledger.load_ledger(save(tmp_path, valid))
    assert f": entries[1].{place.replace('.0', '[0]')}: " in str(error.value)
    assert len(str(error.value).splitlines()) == 1
