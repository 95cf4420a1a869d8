"""Published figures: as they were printed, and beside ours only where they can be compared."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fake_records import fake_record, row, write
from matplotlib.figure import Figure

from seqmodels.evaluation.metrics import METRICS
from seqmodels.models import PAPERS, papers
from seqmodels.report import figures, ledger, reading, style

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"

PUBLISHED = {
    "bentrevett": "13.76 20.61 28.30 36.52",
    "Wu": "41.02",
    "karpathy": "1.88 1.4697 1.48",
    "Cho": "13.92 20.99",
    "Bahdanau": "13.93 24.19 21.50 31.44 17.82 26.71 26.75 34.16 28.45 36.15",
    "Sutskever": "26.17 30.59 34.81 5.8 4.7",
    "Luong": "11.3 12.6 14.0 16.8 18.1",
    "Vaswani": "27.3 38.1 28.4 41.8 25.8 24.9 23.7",
    "tensorflow": "25.5 26.1",
    "joeynmt": "25.8 26.5",
    "Transformer": "37.2 33.6 26.0 10.9",
    "A": "29.7 26.1",
}
"""First word of a source -> its figures, in order; written down apart from the ledger."""

PARAMETERS = {"13.76": 13.9, "20.61": 14.2, "28.30": 20.5, "36.52": 9.0, "41.02": 2.6}
"""Published BLEU on Multi30k -> millions."""


def first_word(entry: ledger.Entry) -> str:
    """Return what `PUBLISHED` knows a source by."""
    return entry.source.replace("/", " ").replace(",", " ").split()[0]


@pytest.fixture(scope="module")
def entries() -> list[ledger.Entry]:
    """Read the ledger of the repository."""
    return ledger.load(RESULTS)


@pytest.fixture
def valid() -> dict[str, Any]:
    """Make a ledger of one entry that can be compared and one that cannot."""
    ours = {"folder": "made", "model": "bahdanau", "test": "length", "score": "bleu"}
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


def save(folder: Path, made: Any) -> Path:
    """Write a ledger to a folder; return the folder."""
    (folder / "ledger.json").write_text(json.dumps(made), encoding="utf-8")
    return folder


def drawn_nothing(figure: Figure, path: Path) -> Path:
    """Stand in for `plot.save`: figures take seconds, and do not matter here."""
    return path


# --------------------------------------------------------------------------- The ledger we publish


def test_every_published_figure_stands_in_the_ledger(entries: list[ledger.Entry]) -> None:
    """Keeps out a slip of the pen, a figure that went missing, and one that nobody published."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(first_word(entry), []).extend(f.value for f in entry.figures)
    assert {name: sorted(values) for name, values in found.items()} == {
        name: sorted(values.split()) for name, values in PUBLISHED.items()
    }
    sizes = {f.value: f.parameters for e in entries if e.corpus == "Multi30k" for f in e.figures}
    assert {value: n and n / 1e6 for value, n in sizes.items()} == PARAMETERS


def test_a_source_can_be_looked_up(entries: list[ledger.Entry]) -> None:
    """Keeps out a paper without its year and number, and a repository without its address."""
    for entry in entries:
        if entry.url is None:
            assert not entry.comparable, entry.source
        elif "arxiv.org" in entry.url:
            assert entry.year
            assert entry.place
            assert entry.year % 100 == int(entry.url.split("/abs/")[1][:2])


def test_only_the_same_data_are_compared(entries: list[ledger.Entry]) -> None:
    """Keeps out ours on Multi30k beside theirs on WMT14, or under the name of another model."""
    data = {"Multi30k": "translation-multi30k", "shakespeare_char": "next_token-shakespeare"}
    for entry in entries:
        assert entry.comparable == (entry.corpus in data), entry.source
        assert entry.comparable or entry.why.startswith("different data: ")
        for f in entry.figures:
            if f.ours:
                to_german = "-en-de" if entry.direction == "en→de" else ""
                assert f.ours.folder == data[entry.corpus] + to_german
                assert f.ours.model == f.model in style.looks(papers())
                assert f.ours.score == f.metric in METRICS
                searches = {"greedy": "greedy", "beam 5": "length", None: "whole"}
                assert f.ours.test == searches[entry.search]


def test_its_models_are_those_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a sixth model that no figure could be set beside, and a name that is misspelt."""
    assert [ledger.check_model(name) for name in PAPERS] == list(PAPERS)
    with pytest.raises(ValueError, match="unknown model 'gru'; choose from rnn_encdec, bahdanau"):
        ledger.check_model("gru")
    monkeypatch.setitem(PAPERS, "gru", PAPERS["rnn_encdec"])
    assert ledger.check_model("gru") == "gru"


def test_the_committed_tables_are_those_of_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a README older than a record or the ledger, and a number typed into it."""
    for path in [*RESULTS.glob("*/*.json"), RESULTS / "ledger.json"]:
        copy = tmp_path / path.relative_to(RESULTS)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(path, copy)
    monkeypatch.setattr(style, "save", drawn_nothing)
    figures.plot_results(tmp_path)
    for path in tmp_path.rglob("*.md"):
        committed = RESULTS / path.relative_to(tmp_path)
        assert path.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------- The tables


def test_ours_stands_beside_with_its_interval(valid: dict[str, Any], tmp_path: Path) -> None:
    """Keeps out another model's score, a score without its interval, or a size left untold."""
    records = [fake_record("bahdanau", seed) for seed in (1, 2)]
    folders = {"made": reading.load_records(write(tmp_path / "made", records))}
    text = ledger.published(ledger.load(save(tmp_path, valid)), folders)
    group = [r["tests"][0]["overall"]["bleu"] for r in records]
    value, low, high = (sum(c[k] for c in group) / 2 for k in ("value", "low", "high"))
    half = abs(group[0]["value"] - group[1]["value"]) / 2
    ours = f"{value:.1f} ± {half:.1f} [{low:.1f}, {high:.1f}] (0.99 M)"
    label = style.looks(["bahdanau"])["bahdanau"].label
    assert row(text, "theirs") == ["theirs", label, "28.30 (20.5 M)", ours]
    assert row(text, "another")[2:] == ["30.0", "–"]
    assert "### [Near 2014](https://example.org/near), table 9" in text
    assert "Multi30k · test2016. **Comparable**: same data." in text


def test_what_cannot_be_compared_says_why(valid: dict[str, Any], tmp_path: Path) -> None:
    """Keeps out a column of ours beside other data, and the reason left out."""
    text = ledger.published(ledger.load(save(tmp_path, valid)), {})
    assert text.index("### [Near") < text.index("### Far")
    text = text[text.index("### Far") :]
    assert "newstest2014. **Not comparable**: different data: WMT14." in text
    assert row(text, "system") == ["system", "model here", "BLEU, greedy", "BLEU, beam 5"]
    assert row(text, "one") == ["one", "–", "13.93", "24.19"]
    assert row(text, "two") == ["two", "–", "–", "9.5"]
    assert text.endswith("\n\nIt falls.")


@pytest.mark.parametrize(("key", "value"), [("folder", "none"), ("test", "none"), ("score", None)])
def test_a_record_that_is_missing_is_a_dash(
    key: str, value: str | None, valid: dict[str, Any], tmp_path: Path
) -> None:
    """Keeps out a crash, or a zero, for a folder, test set or score that is not there yet."""
    record = fake_record("bahdanau", 1)
    if value is None:
        record["tests"][0]["overall"]["bleu"] |= dict.fromkeys(("value", "low", "high"))
    else:
        valid["entries"][1]["figures"][0]["ours"][key] = value
    folders = {"made": reading.load_records(write(tmp_path / "made", [record]))}
    text = ledger.published(ledger.load(save(tmp_path, valid)), folders)
    assert row(text, "theirs")[2:] == ["28.30 (20.5 M)", "–"]


def test_a_folder_without_a_ledger_has_no_such_tables(
    valid: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a heading over nothing, and a ledger that changes what stands above it."""
    monkeypatch.setattr(style, "save", drawn_nothing)
    write(tmp_path / "made", [fake_record("bahdanau", 1)])
    figures.plot_results(tmp_path)
    without = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "ublished" not in without
    figures.plot_results(save(tmp_path, valid))
    added = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert added.startswith(f"{without}\n## Published figures\n")


# ---------------------------------------------------------------------------------------- Damage


def damaged(valid: dict[str, Any], place: str, value: Any) -> dict[str, Any]:
    """Return a ledger with another value at a place such as figures.0.value of the comparable."""
    made = deepcopy(valid)
    inner, keys = made["entries"][1], place.split(".")
    for key in keys[:-1]:
        inner = inner[int(key) if key.isdigit() else key]
    if value is None:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return made


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("why", None, "entries[1].why: Field required"),
        ("beam", 5, "entries[1].beam: Extra inputs"),
        ("url", "http://example.org", "entries[1].url: "),
        ("why", "two | cells", "entries[1].why: "),
        ("comparable", "yes", "entries[1].comparable: "),
        ("figures", [], "entries[1].figures: "),
        ("figures.0.value", 28.3, "entries[1].figures[0].value: "),
        ("figures.0.value", "28,30", "entries[1].figures[0].value: "),
        ("figures.0.model", "mamba", "entries[1].figures[0].model: "),
        ("figures.0.ours.folder", "../up", "entries[1].figures[0].ours.folder: "),
        ("figures.0.ours.test", None, "entries[1].figures[0].ours.test: Field required"),
    ],
)
def test_a_damaged_ledger_is_told_in_one_line(
    place: str, value: Any, words: str, valid: dict[str, Any], tmp_path: Path
) -> None:
    """Keeps out a traceback, an error without its place, and a field that is passed over."""
    assert len(ledger.load(save(tmp_path, valid))) == 2
    with pytest.raises(ValueError, match=r"ledger\.json is not a ledger: ") as error:
        ledger.load(save(tmp_path, damaged(valid, place, value)))
    assert words in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["[]", '{"schema": "seqmodels.ledger/2"}', '{"schema": ', "\0"])
def test_what_is_no_ledger_draws_nothing(text: str, tmp_path: Path) -> None:
    """Keeps out minutes of drawing before the file beside the records is found to be wrong."""
    write(tmp_path / "made", [fake_record("bahdanau", 1)])
    (tmp_path / "ledger.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"ledger\.json is no") as error:
        figures.plot_results(tmp_path)
    assert len(str(error.value).splitlines()) == 1
    assert not list(tmp_path.rglob("*.md"))
