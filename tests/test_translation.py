"""Translation: the grammar and one's own sentences, end to end at toy size."""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from checks import check_folder
from conftest import Run
from own_data import from_folder, from_text

from seqmodels import EOS
from seqmodels.data import tokenizers
from seqmodels.data.corpus import SPLITS
from seqmodels.records import record
from tasks import recipes
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation


def test_translation_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a grammar whose lengths, words or gold links do not fit the harness."""
    assert run(translation, "--models", "bahdanau", "rnn_encdec", "--out", tmp_path) == 0
    records = check_folder(tmp_path, ["bahdanau", "rnn_encdec"])
    (test,) = records[0]["tests"]
    assert [(b["low"], b["n"]) for b in test["buckets"]] == [(1, 3), (11, 3)]
    attending = next(r for r in records if r["alignment"])["alignment"]
    assert attending["gold"]
    for s, t in attending["gold"]:
        assert 0 <= s < len(attending["src"])
        assert 0 <= t < len(attending["tgt"])
    assert "<unk>" not in str(attending)
    assert tokenizers.SPECIALS[3] not in "".join(attending["src"] + attending["tgt"])


# ------------------------------------------------------------------------------- your own sentences


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a parallel corpus in two languages that nobody speaks."""
    rng, made = random.Random(1), tmp_path / "spoken"
    made.mkdir()
    words = {"ka": "kata", "lo": "lorin", "mi": "mi", "so": "soo"}
    for split, n in (("train", 80), ("valid", 8), ("test", 9)):
        lines = [[rng.choice([*words]) for _ in range(rng.randint(2, 15))] for _ in range(n)]
        for code, said in (("qaa", lines), ("qab", [[words[w] for w in line] for line in lines])):
            rows = "".join(" ".join(line) + "\n" for line in said)
            (made / f"{split}.{code}").write_text(rows, encoding="utf-8")
    return made


def test_your_own_sentences(run: Run, folder: Path, tmp_path: Path) -> None:
    """Keeps out languages that must be known, and counts that do not show what was left out."""
    with (folder / "train.qaa").open("a") as src, (folder / "train.qab").open("a") as tgt:
        src.write("\n" + "ka " * 900 + "\n")
        tgt.write("kata\nkata\n")
    flags = "--data", folder, "--models", "gpt", "lstm_seq2seq", "--out", tmp_path / "out"
    assert run(translation, *flags) == 0
    made, _ = check_folder(tmp_path / "out", ["gpt", "lstm_seq2seq"])
    assert made["data"]["name"] == "spoken qaa→qab"
    counts = {k: n for k, n in made["data"].items() if k.startswith("n_")}
    assert all(counts.pop(f"n_tokens_{split}") > 40 for split in ("train", "valid", "test"))
    assert {key: n for key, n in counts.items() if n} == {
        "n_train": 80, "n_valid": 8, "n_test": 9, "n_too_long_train": 1, "n_blank_train": 1,
        "n_duplicate_train": 4, "n_unequal_train": 1,
    }  # fmt: skip
    assert {"n_blank_valid", "n_too_long_test", "n_held_out_train"} < set(counts)
    assert [(t["name"], t["beam"]) for t in made["tests"]] == [("length", 5), ("greedy", 1)]
    assert made["beam"] == 5


def test_flags_reach_their_switches(folder: Path) -> None:
    """Keeps out two switches that are exchanged, and a loss that is not smoothed as it says."""
    lower, clean = from_folder(folder, "--lowercase"), from_folder(folder, "--clean")
    assert lower.data["name"] == "spoken qaa→qab, lower-cased"
    assert clean.data["name"] == "spoken qaa→qab, cleaned"
    assert lower.training["label_smoothing"] == clean.training["label_smoothing"] == 0.1


def test_lengths_beyond_training_are_known(folder: Path) -> None:
    """Keeps out figures in which no length is longer than trained: the test's own would be it."""
    src, tgt = folder / "test.qaa", folder / "test.qab"
    src.write_text(src.read_text() + "ka " * 40 + "\n")
    tgt.write_text(tgt.read_text() + "kata " * 40 + "\n")
    trained = [len(line.split()) for line in (folder / "train.qaa").read_text().splitlines()]
    for test in from_folder(folder).tests:
        assert max(test.x) == 40 > max(trained) == test.max_train_length
    given = {"size": "smoke", "tokens": None, "no_source_eos": False}
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"n_train": 60, "n_valid": 6, "max_train": 10, "max_test": 30, "per_bucket": 3}
        patch.setitem(translation.SIZES, "smoke", sizes)
        (test,) = translation.builtin_task(argparse.Namespace(**given)).tests
    assert max(test.x) > 20 > 10 >= test.max_train_length


def test_a_test_that_is_too_long_is_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out one endless test sentence that costs GPT a million positions, and its silence."""
    before = from_folder(folder)
    assert before.data["n_too_long_test"] == 0
    with (folder / "test.qaa").open("a") as src, (folder / "test.qab").open("a") as tgt:
        src.write("\n" + "ka " * 300 + "\n" + "lo " * 1_000_000 + "\nka\n")
        tgt.write("kata\nkata\nkata\n" + "soo " * 1_000_000 + "\n")
    made = from_folder(folder)
    assert (made.data["n_test"], made.data["n_too_long_test"], made.data["n_blank_test"]) == (
        10,
        2,
        1,
    )
    test = made.tests[0]
    assert [e.line for e in test.examples] == [*range(1, 10), 11]
    assert any(low <= max(test.x) <= high for low, high in test.buckets)
    assert made.recipes["gpt"].sizes["n_positions"] <= 3 * 400 + 10
    assert made.alignment_example == before.alignment_example
    for code in ("qaa", "qab"):
        (folder / f"test.{code}").write_text(f"{code} " * 5_000, encoding="utf-8")
    with pytest.raises(SystemExit):
        from_folder(folder)
    assert " 1 more than 400 tokens on a side" in capsys.readouterr().err


def test_who_ends_a_source(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an EOS where records were made without, a flag that does nothing with --data."""
    for split in SPLITS:
        for ours, theirs in (("qaa", "de"), ("qab", "en")):
            named = f"{'test_2016_flickr' if split == 'test' else split}.{theirs}"
            (tmp_path / "multi30k").mkdir(exist_ok=True)
            (tmp_path / "multi30k" / named).write_bytes((folder / f"{split}.{ours}").read_bytes())
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for data, flags, end in (
        (folder, (), "EOS"),
        (folder, ("--no-source-eos",), "none"),
        ("multi30k", ("--source", "de"), "none"),
        ("multi30k", ("--source", "en"), "none"),
    ):
        made = from_folder(data, *flags)
        assert made.data["source_end"] == end
        sources = [
            made.train[0].src,
            made.tests[0].examples[0].src,
            made.alignment_example.example.src,
        ]
        assert [src[-1] == EOS for src in sources] == [end == "EOS"] * 3


def test_what_is_read_is_shown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out an hour of training the wrong way round, or on a header, without a sign of it."""
    begins = {
        code: (folder / f"train.{code}").read_text().split("\n")[0] for code in ("qaa", "qab")
    }
    from_folder(folder, "--source", "qab")
    assert capsys.readouterr().out.split("\n")[:2] == [
        f"{side}: {folder / f'train.{code}'}, first line: {begins[code]}"
        for side, code in (("source", "qab"), ("target", "qaa"))
    ]
    path = tmp_path / "said.txt"
    path.write_text("\n \nOnce.\n" + "so it was said\n" * 3_000)
    from_text(path)
    assert capsys.readouterr().out.startswith(f"text: {path}, first line: Once.\n")


@pytest.mark.parametrize("task", [translation, next_token], ids=lambda t: t.__name__)
@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_a_size_that_is_not_chosen(
    task: ModuleType, kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out --vocab being ignored in silence."""
    data = folder if task is translation else folder / "train.qaa"
    with pytest.raises(SystemExit) as stopped:
        task.main(["--data", str(data), "--tokenizer", kind, "--vocab", "300"])
    assert stopped.value.code == 2
    assert f"--vocab 300 applies only to bpe, words, spaces; {kind} has" in capsys.readouterr().err


def test_max_tokens_is_a_flag(folder: Path) -> None:
    """Keeps out a limit on length that no one can change."""
    made = from_folder(folder, "--max-tokens", "12")
    assert (made.data["max_tokens"], made.data["max_tokens_test"]) == (12, 24)
    assert made.data["n_too_long_train"] > 10
    assert max(max(len(e.src), len(e.tgt)) for e in made.train) <= 12


def test_every_example_has_its_line(folder: Path) -> None:
    """Keeps out a message about a sentence that no one can find in the file."""
    for code in ("qaa", "qab"):
        path = folder / f"train.{code}"
        path.write_text("ka\n\n" + "ka " * 900 + "\n" + path.read_text("utf-8"), "utf-8")
    lines = ["", *(folder / "train.qaa").read_text("utf-8").splitlines()]
    made = from_folder(folder)
    assert [e.line for e in made.train] == [1, *range(4, 84)]
    assert [made.tokenizer.decode(e.src) for e in made.train] == [lines[e.line] for e in made.train]
    assert all(e.src[-1] == EOS for e in made.train)
    assert [e.line for e in made.valid] == list(range(1, 9))

    for task in (recall, translation, next_token):
        with pytest.MonkeyPatch.context() as patch:
            few = {"n_train": 9, "n_valid": 4} | ({"per_length": 1} if task is recall else {})
            patch.setitem(task.SIZES, "smoke", task.SIZES["smoke"] | few)
            given = {"size": "smoke", "tokens": None, "context": 8, "no_source_eos": False}
            make_task = getattr(task, "builtin_task", task.make_task)
            made = make_task(argparse.Namespace(**given))
        assert [e.line for e in made.train] == list(range(1, 10))
        assert [e.line for e in made.valid] == [1, 2, 3, 4]


def test_a_name_of_odd_letters_is_recorded(folder: Path) -> None:
    """Keeps out a record that cannot be written, after the training: no UTF-8 has such a name."""
    odd = folder.rename(folder.with_name("spo\udcffken\x1b"))
    name = from_folder(odd).data["name"]
    assert name == r"spo\udcffken\x1b qaa→qab"
    assert name.isprintable()


@pytest.mark.usefixtures("undrawn")
def test_the_other_direction_is_another_experiment(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out one direction's scores under the other's name: both read the same files."""
    flags = "--data", folder, "--models", "gpt", "--out", tmp_path / "out"
    assert run(translation, *flags) == 0
    assert run(translation, *flags, "--source", "qab") == 2
    assert "data.name was spoken qaa→qab, is spoken qab→qaa" in capsys.readouterr().err


def test_long_targets_have_positions(folder: Path) -> None:
    """Keeps out a GPT that cannot hold what it was given: targets many times the source."""
    for split in ("train", "valid", "test"):
        n = len((folder / f"{split}.qaa").read_text().splitlines())
        (folder / f"{split}.qaa").write_text("ka\n" * n)
    made = from_folder(folder)
    examples = [*made.train, *made.valid, *made.tests[0].examples]
    longest = max(len(e.src) + len(e.tgt) for e in examples)
    assert longest <= made.recipes["gpt"].sizes["n_positions"]


@pytest.mark.parametrize(
    ("folder", "chosen"),
    [
        ("translation-grammar", recipes.GRAMMAR),
        ("translation-bible", translation.BIBLE.recipes),
        ("translation-bible-8m", translation.BIBLE.recipes),
        ("translation-multi30k", translation.MULTI30K.recipes),
        ("translation-multi30k-en-de", translation.FROM_ENGLISH.recipes),
    ],
)
def test_records_were_made_with_the_recipes(folder: str, chosen: dict[str, Any]) -> None:
    """Keeps out a learning rate or a size that no committed record was trained with."""
    paths = sorted((Path(__file__).parents[1] / "results" / folder).glob("*-seed*.json"))
    assert paths
    for path in paths:
        kept = record.load(path)
        assert kept["train_config"]["lr"] == chosen[kept["model"]].lr, path.name
        assert chosen[kept["model"]].sizes.items() <= kept["model_config"].items(), path.name
