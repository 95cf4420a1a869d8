"""Translation: the grammar and one's own sentences, end to end at toy size."""

import random
from pathlib import Path
from typing import Any

import pytest
from checks import check_folder
from conftest import Run
from fake_records import scored

from seqmodels import EOS
from seqmodels.cli import compare
from seqmodels.comparison.task import Task
from seqmodels.data import tokenizers
from seqmodels.data.corpus import SPLITS
from seqmodels.models import PAPERS
from seqmodels.records import record
from seqmodels.report import style
from tasks import recipes
from tasks.translation import __main__ as translation
from tasks.translation import figure


def task_on(data: object, *flags: str) -> Task:
    """Return the task on a folder of parallel text, or on a corpus by name."""
    tasks: list[Task] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "compare_and_report", lambda task, args: tasks.append(task))
        with pytest.raises(SystemExit) as stopped:
            translation.main(["--data", str(data), "--size", "smoke", "--tokens", "1", *flags])
    if stopped.value.code:
        raise stopped.value
    return tasks[0]


def test_translation_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a grammar whose lengths, words or gold links do not fit the harness."""
    assert run(translation, "--models", "bahdanau", "--out", tmp_path) == 0
    (record,) = check_folder(tmp_path, ["bahdanau"])
    (test,) = record["tests"]
    assert [(b["low"], b["n"]) for b in test["buckets"]] == [(1, 3), (11, 3)]
    alignment = record["alignment"]
    assert alignment["gold"]
    for s, t in alignment["gold"]:
        assert 0 <= s < len(alignment["src"])
        assert 0 <= t < len(alignment["tgt"])
    assert tokenizers.SPECIALS[3] not in "".join(alignment["src"] + alignment["tgt"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a parallel corpus in two invented languages; targets are longer than sources."""
    rng, folder = random.Random(1), tmp_path / "spoken"
    folder.mkdir()
    words = {"ka": "ka ta", "lo": "lorin", "mi": "mi", "so": "soo"}
    for split, n in (("train", 80), ("valid", 8), ("test", 9)):
        lines = [[rng.choice([*words]) for _ in range(rng.randint(2, 15))] for _ in range(n)]
        targets = [[words[word] for word in line] for line in lines]
        append(
            folder,
            split,
            *("".join(" ".join(line) + "\n" for line in side) for side in (lines, targets)),
        )
    return folder


def append(folder: Path, split: str, src: str, tgt: str) -> None:
    """Append lines to both sides of a split."""
    for code, text in (("qaa", src), ("qab", tgt)):
        with (folder / f"{split}.{code}").open("a") as file:
            file.write(text)


@pytest.mark.usefixtures("undrawn")
def test_your_own_sentences(run: Run, folder: Path, tmp_path: Path, capsys: Any) -> None:
    """Keeps out languages that must be known, uncounted pairs, and one direction for the other."""
    append(folder, "train", "\n" + "ka " * 900 + "\n", "kata\nkata\n")
    flags = "--data", folder, "--models", "gpt", "--out", tmp_path / "out"
    assert run(translation, *flags) == 0
    content = record.load(tmp_path / "out" / "gpt-seed1.json")
    assert content["data"]["name"] == "spoken qaa→qab"
    counts = {k: n for k, n in content["data"].items() if k.startswith("n_")}
    assert all(counts.pop(f"n_tokens_{split}") > 40 for split in SPLITS)
    assert {key: n for key, n in counts.items() if n} == {
        "n_train": 80, "n_valid": 8, "n_test": 9, "n_too_long_train": 1, "n_blank_train": 1,
        "n_duplicate_train": 4, "n_unequal_train": 1,
    }  # fmt: skip
    assert [(t["name"], t["beam"]) for t in content["tests"]] == [("length", 5), ("greedy", 1)]
    assert content["beam"] == 5
    assert run(translation, *flags, "--source", "qab") == 2
    assert "data.name was spoken qaa→qab, is spoken qab→qaa" in capsys.readouterr().err


def test_flags_reach_their_settings(folder: Path) -> None:
    """Keeps out two flags that are exchanged, a fixed limit, and a loss that is not smoothed."""
    lower, clean = task_on(folder, "--lowercase"), task_on(folder, "--clean")
    assert lower.data["name"] == "spoken qaa→qab, lower-cased"
    assert clean.data["name"] == "spoken qaa→qab, cleaned"
    assert lower.training["label_smoothing"] == clean.training["label_smoothing"] == 0.1
    short = task_on(folder, "--max-tokens", "12")
    assert (short.data["max_tokens"], short.data["max_tokens_test"]) == (12, 24)
    assert short.data["n_too_long_train"] > 10
    assert max(max(len(e.src), len(e.tgt)) for e in short.train) == 12


def test_a_test_that_is_too_long(folder: Path) -> None:
    """Keeps out a million positions for one test sentence, and its length for a trained one."""
    before = task_on(folder)
    src = "\n" + "ka " * 300 + "\n" + "lo " * 100_000 + "\nka\n"
    append(folder, "test", src, "kata\nkata\nkata\n" + "soo " * 100_000 + "\n")
    task = task_on(folder)
    most = max(len(line.split()) for line in (folder / "train.qaa").read_text().splitlines())
    for test in task.tests:
        assert max(test.x) == 300 > most == test.max_train_length
    counts = [task.data[f"n_{kind}"] for kind in ("test", "too_long_test", "blank_test")]
    assert counts == [10, 2, 1]
    test = task.tests[0]
    assert [e.line for e in test.examples] == [*range(1, 10), 11]
    assert any(low <= max(test.x) <= high for low, high in test.buckets)
    assert task.recipes["gpt"].sizes["n_positions"] <= 3 * 400 + 10
    assert task.alignment_example == before.alignment_example


def test_source_eos(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an EOS where records were made without, a flag that does nothing with --data."""
    (tmp_path / "multi30k").mkdir()
    for split in SPLITS:
        for ours, theirs in (("qaa", "de"), ("qab", "en")):
            name = f"{'test_2016_flickr' if split == 'test' else split}.{theirs}"
            text = (folder / f"{split}.{ours}").read_bytes()
            (tmp_path / "multi30k" / name).write_bytes(text)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for data, flags, end in (
        (folder, (), "EOS"),
        (folder, ("--no-source-eos",), "none"),
        ("multi30k", ("--source", "de"), "none"),
        ("multi30k", ("--source", "en"), "none"),
    ):
        task = task_on(data, *flags)
        assert task.data["source_end"] == end
        shown = [task.train[0], task.tests[0].examples[0], task.alignment_example.example]
        assert [e.src[-1] == EOS for e in shown] == [end == "EOS"] * 3


def test_long_targets_have_positions(folder: Path) -> None:
    """Keeps out a GPT that cannot hold what it was given: targets many times the source."""
    for path in folder.glob("*.qaa"):
        path.write_text("ka\n" * len(path.read_text().splitlines()))
    task = task_on(folder)
    examples = [*task.train, *task.valid, *task.tests[0].examples]
    longest = max(len(e.src) + len(e.tgt) for e in examples)
    assert longest <= task.recipes["gpt"].sizes["n_positions"]


@pytest.mark.parametrize(
    ("folder", "chosen"),
    [
        ("translation-grammar", recipes.GRAMMAR),
        ("translation-bible", translation.BIBLE.recipes),
        ("translation-multi30k", translation.MULTI30K.recipes),
        ("translation-multi30k-en-de", translation.FROM_ENGLISH.recipes),
    ],
)
def test_records_were_made_with_the_recipes(folder: str, chosen: dict[str, Any]) -> None:
    """Keeps out a learning rate or a size that no committed record was trained with."""
    paths = sorted((Path(__file__).parents[1] / "results" / folder).glob("*-seed*.json"))
    assert paths
    for path in paths:
        content = record.load(path)
        assert content["train_config"]["lr"] == chosen[content["model"]].lr, path.name
        assert chosen[content["model"]].sizes.items() <= content["model_config"].items(), path.name


def test_the_five_papers_have_a_figure_among_others() -> None:
    """Keeps out a variant or a later model in the figure of the five, and a figure drawn twice."""
    names = list(PAPERS)[:5]
    five = scored(dict.fromkeys(names, (80, 40, 20)))
    others = scored(dict.fromkeys(("linear_attention", "rnn_encdec_x2"), (80, 40, 20)))
    with style.context():
        (drawn,) = figure.draw_five([others[1], *five, others[0]]).values()
    labels = {text.get_text() for legend in drawn.legends for text in legend.get_texts()}
    assert {label.partition(" (")[0] for label in labels} == {PAPERS[n].label for n in names}
    assert figure.draw_five(five) == figure.draw_five(others) == {}
