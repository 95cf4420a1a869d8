"""The tasks: each runs end to end at toy size, and asks what it says it asks."""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from seqmodels import BOS, EOS, MODELS, build
from seqmodels.catalog import CATALOG
from seqmodels.comparison.runs import (
    check_same,
    count_parameters,
    model_sizes,
    settings_of,
    shared_settings,
)
from seqmodels.comparison.task import Task
from seqmodels.data import presets, tokenizers
from seqmodels.data.batches import Example, collate, shuffled
from seqmodels.data.corpus import SPLITS
from seqmodels.evaluation import metrics
from seqmodels.records import record
from seqmodels.report import figures, reading
from seqmodels.utils import files
from tasks import __main__ as everything
from tasks import next_token, recall, translation
from tasks.flags import OF_TEXT

DATA = Path(os.environ.get("SEQMODELS_DATA", Path(__file__).parents[1] / "../shared/data"))
ATTENDING = {"bahdanau", "transformer", "gpt"}
Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a task's command at toy size and returns its exit code."""
    toy = {"n_train": 60, "n_valid": 6}
    monkeypatch.setattr(metrics, "N_BOOTSTRAP", 20)
    monkeypatch.setitem(recall.SIZES, "smoke", toy | {
        "per_length": 2, "trained_to": 8, "tested_to": 16,
    })  # fmt: skip
    monkeypatch.setitem(translation.SIZES, "smoke", toy | {"tested_to": 20, "per_bin": 3})
    monkeypatch.setitem(next_token.SIZES, "smoke", toy | {"tested_to": 32, "per_distance": 4})

    def main(task: ModuleType, *flags: object) -> int:
        given = ["--size", "smoke", "--tokens", "200", "--device", "cpu", *map(str, flags)]
        monkeypatch.setattr(sys, "argv", [task.__name__, *given])
        with pytest.raises(SystemExit) as stopped:
            task.main()
        return stopped.value.code

    return main


def check_folder(folder: Path, models: Sequence[str]) -> list[dict[str, Any]]:
    """Check all that a task leaves behind; return the records."""
    records = reading.load_records(folder)
    assert {r["model"] for r in records} == set(models)
    for made in records:
        path = folder / f"{made['model']}-seed{made['seed']}.json"
        assert record.load(path) == made
        lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        rows = [json.loads(line) for line in lines]
        for test in made["tests"]:
            own = [row for row in rows if row["set"] == test["name"]]
            assert sum(b["n"] for b in test["bins"]) == len(own) > 0
            assert test["headline"] in test["overall"]
        assert {row["set"] for row in rows} == {test["name"] for test in made["tests"]}
        assert len(made["data"]["sha256"]) == 64
        assert (made["alignment"] is not None) <= (made["model"] in ATTENDING)
    drawn = ["curves", "state", *(f"score-{test['name']}" for test in records[0]["tests"])]
    drawn += ["alignment"] * any(r["alignment"] for r in records)
    for name in drawn:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    table = (folder / "tables.md").read_text(encoding="utf-8")
    assert all(CATALOG[model].label in table for model in models)
    assert f"{records[0]['n_parameters'] / 1e6:.2f}" in table
    n_tokens = tokenizers.load(folder / "tokenizer.json").vocab_size
    assert {r["model_config"]["vocab_size"] for r in records} == {n_tokens}
    return records


# ----------------------------------------------------------------------------------- end to end


def test_recall_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a model that the harness cannot train, search, score or draw."""
    assert run(recall, "--out", tmp_path) == 0
    records = check_folder(tmp_path, list(MODELS))
    names = ["copy", "reverse", "first-query"]
    assert [test["name"] for test in records[0]["tests"]] == names
    assert {r["model"] for r in records if r["alignment"]} == ATTENDING
    sizes = [r["n_parameters"] for r in records]
    assert max(sizes) / min(sizes) < 1.1


def test_translation_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a grammar whose lengths, words or gold links do not fit the harness."""
    assert run(translation, "--models", "bahdanau", "rnn_encdec", "--out", tmp_path) == 0
    records = check_folder(tmp_path, ["bahdanau", "rnn_encdec"])
    (test,) = records[0]["tests"]
    assert [(b["low"], b["n"]) for b in test["bins"]] == [(1, 3), (11, 3)]
    attending = next(r for r in records if r["alignment"])["alignment"]
    assert attending["gold"]
    for s, t in attending["gold"]:
        assert 0 <= s < len(attending["src"])
        assert 0 <= t < len(attending["tgt"])
    assert "<unk>" not in str(attending)
    assert tokenizers.SPECIALS[3] not in "".join(attending["src"] + attending["tgt"])


def test_next_token_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a task without free-running scores breaking the record or the figures."""
    flags = "--models", "gpt", "lstm_seq2seq", "--context", 20, "--out", tmp_path
    assert run(next_token, *flags) == 0
    records = check_folder(tmp_path, ["gpt", "lstm_seq2seq"])
    context, distance = records[0]["tests"]
    assert [b["low"] for b in context["bins"]] == [0, 8, 16, 20]
    assert len({b["n"] for b in context["bins"]}) == 1
    assert [b["low"] for b in distance["bins"]] == [8, 16, 32]
    assert records[0]["data"]["context"] == 20
    assert "bleu" not in context["overall"]


def test_all_results_are_made_again(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Keeps out a comparison that is left out or made twice, and drawing what has failed."""
    monkeypatch.setitem(next_token.SIZES["smoke"], "tested_to", 128)
    monkeypatch.setattr(
        figures, "plot_folder", lambda folder: [files.write(folder / "tables.md", "")]
    )
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for folder, called in (("bible", {}), ("multi30k", presets.MULTI30K)):
        (tmp_path / folder).mkdir()
        for split, code in itertools.product(SPLITS, ("de", "en")):
            path = tmp_path / folder / f"{called.get(split, split)}.{code}"
            path.write_text(f"{split} {code}\n" * 2)
    said = "so he said and went\n" * 2_000
    for name in ("shakespeare", "war-and-peace"):
        path = tmp_path / presets.TEXT[name].local
        path.parent.mkdir()
        path.write_text(f"*** START OF THIS ***\n{said}*** END OF THIS ***\n")
    tiny = {"n_parameters": 300_000}
    for task, name in ((translation, "FROM_ENGLISH"), (translation, "MULTI30K")):
        monkeypatch.setitem(
            task.TUNED,
            ("multi30k", "en" if "ENGLISH" in name else "de"),
            getattr(task, name)._replace(**tiny),
        )
    out = tmp_path / "results"
    given = everything, "--models", "lstm_seq2seq", "--seeds", 1, "--corpora", "--out", out
    assert run(*given) == 0
    (records,) = zip(*(reading.load_records(path) for path in sorted(out.glob("*/"))), strict=True)
    sources = [
        "stories", "shakespeare", "war-and-peace", "random symbols", "bible de→en",
        "English–German grammar", "English–German grammar", "multi30k de→en, lower-cased",
        "multi30k en→de, lower-cased",
    ]  # fmt: skip
    assert [made["data"]["name"] for made in records] == sources
    drawn = (out / "README.md").read_text()
    assert re.findall("## (.*)", drawn) == sorted(path.name for path in out.glob("*/"))
    capsys.readouterr()
    assert run(*given) == 0
    assert capsys.readouterr().out.count("recorded in") == len(records)
    (out / "README.md").unlink()
    assert run(*given, "--layers", 3) == 2
    assert not (out / "README.md").exists()


@pytest.mark.parametrize("task", [recall, translation, next_token], ids=lambda t: t.__name__)
@pytest.mark.parametrize("size", ["smoke", "laptop"])
def test_every_size_can_be_built(task: ModuleType, size: str) -> None:
    """Keeps out a size whose test has no example, whose GPT has too few positions, or no width."""
    sizes = task.SIZES[size]
    few = {k: min(n, 40) if k in ("n_train", "n_valid") else n for k, n in sizes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(task.SIZES, size, few)
        given = {"size": size, "tokens": None, "context": 128, "no_source_eos": False}
        made = task.embedded(argparse.Namespace(**given))
    longest = 0
    for examples in (made.train, made.valid, *(test.examples for test in made.tests)):
        assert examples
        longest = max(longest, *(len(e.src) + len(e.tgt) for e in examples))
    assert longest <= made.recipes["gpt"].sizes["n_positions"]
    assert made.recipes.keys() == MODELS.keys()
    assert [model_sizes(name, made)["vocab_size"] for name in MODELS]  # a width for each
    for test in made.tests:
        assert len(test.x) == len(test.examples)
        assert all(any(low <= x <= high for low, high in test.bins) for x in test.x)


@pytest.mark.usefixtures("undrawn")
def test_one_seed_gives_one_result(run: Run, tmp_path: Path) -> None:
    """Keeps out chance: the same command writes the same hypotheses, byte by byte."""
    models = ["transformer", "rnn_encdec"]
    for out in ("one", "two"):
        assert run(recall, "--models", *models, "--out", tmp_path / out, "--seeds", 3) == 0
    for name in models:
        one, two = (tmp_path / out / f"{name}-seed3.json" for out in ("one", "two"))
        assert one.with_suffix(".jsonl").read_bytes() == two.with_suffix(".jsonl").read_bytes()
        first, second = record.load(one), record.load(two)
        for key in ("tests", "alignment", "model_config", "train_config", "data", "n_parameters"):
            assert first[key] == second[key]
        timeless = [[p | {"seconds": 0} for p in r["curve"]] for r in (first, second)]
        assert timeless[0] == timeless[1]


@pytest.mark.usefixtures("undrawn")
def test_seeds_differ(run: Run, tmp_path: Path) -> None:
    """Keeps out several seeds that are the same run, and a spread of zero."""
    flags = "--models", "rnn_encdec", "--seeds", 1, 2, "--out", tmp_path
    assert run(recall, *flags) == 0
    one, two = reading.load_records(tmp_path)
    assert (one["seed"], two["seed"]) == (1, 2)
    assert one["data"] == two["data"]
    assert one["tests"][0]["overall"]["nats"] != two["tests"][0]["overall"]["nats"]


# ---------------------------------------------------------------------------------- your own data


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


def from_folder(folder: Path, *flags: str) -> Task:
    """Return the task on a folder of parallel text, or on a corpus by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation, "compare", lambda task, args: made.append(task))
        made: list[Task] = []
        with pytest.raises(SystemExit) as stopped:
            translation.main(["--data", str(folder), "--size", "smoke", "--tokens", "1", *flags])
    if stopped.value.code:
        raise stopped.value
    return made[0]


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
        assert max(test.x) == 40 > max(trained) == test.trained_to
    given = {"size": "smoke", "tokens": None, "no_source_eos": False}
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"n_train": 60, "n_valid": 6, "trained_to": 10, "tested_to": 30, "per_bin": 3}
        patch.setitem(translation.SIZES, "smoke", sizes)
        (test,) = translation.embedded(argparse.Namespace(**given)).tests
    assert max(test.x) > 20 > 10 >= test.trained_to


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
    assert any(low <= max(test.x) <= high for low, high in test.bins)
    assert made.recipes["gpt"].sizes["n_positions"] <= 3 * 400 + 10
    assert made.shown == before.shown
    for code in ("qaa", "qab"):
        (folder / f"test.{code}").write_text(f"{code} " * 5_000, encoding="utf-8")
    with pytest.raises(SystemExit):
        from_folder(folder)
    assert "spoken: no pair of test is left: 1 have more than 400 " in capsys.readouterr().err


def test_who_ends_a_source(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out an EOS where records were made without, a flag that does nothing with --data."""
    for split in SPLITS:
        for ours, theirs in (("qaa", "de"), ("qab", "en")):
            named = f"{presets.MULTI30K.get(split, split)}.{theirs}"
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
        sources = [made.train[0].src, made.tests[0].examples[0].src, made.shown.example.src]
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


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"no real text at {DATA}")
@pytest.mark.parametrize(("name", "module", "flags"), everything.CORPORA, ids=lambda x: x[:30])
def test_committed_records_are_accepted(
    name: str, module: str, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out real text that is prepared in another way than for the committed records."""
    monkeypatch.setenv("SEQMODELS_DATA", str(DATA))
    made: list[Task] = []
    task = import_module(f"tasks.{module}")
    monkeypatch.setattr(task, "compare", lambda task, args: made.append(task))
    with pytest.raises(SystemExit):
        task.main(flags.split())
    for path in (Path(__file__).parents[1] / "results" / name).glob("*-seed*.json"):
        check_same(path, settings_of(record.load(path)), shared_settings(made[0]))


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
    assert f"--vocab 300 goes with bpe, words, spaces; {kind} has a s" in capsys.readouterr().err


def test_wikitext_is_read_by_its_own_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keeps out `<unk>` in three tokens, and a perplexity that seems to compare and does not."""
    for name in ("wikitext-2", "wikitext-2-raw"):
        folder = tmp_path / presets.TEXT[name].local
        folder.mkdir()
        for split in ("train", "validation", "test"):
            said = " The <unk> cost 5 @,@ 000 pounds . \n" * 900 + "odd\n" * ("raw" in name)
            rows = (json.dumps({"text": line}) + "\n" for line in said.split("\n")[:-1])
            (folder / f"{split}.jsonl").write_text("".join(rows))
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    monkeypatch.setattr(next_token, "recipes", lambda *_: {})
    given = dict.fromkeys(OF_TEXT) | {"context": 0, "tokens": 900, "size": "smoke"}
    given |= {"tokenizer": "words"}
    for name, published in (("wikitext-2", True), ("wikitext-2-raw", False)):
        made = next_token.own(argparse.Namespace(data=[name], **given))
        labels = made.tokenizer.tokens(made.train[0].tgt)
        assert {"<unk>", "@,@", "\\n"} < set(labels)
        assert made.tests[0].headline == "perplexity"
        assert made.data["n_tokens_test"] >= 900 * 9
        told = capsys.readouterr().out
        assert ("as it is published for WikiText-2" in told) == published
        assert ("compares with those of the same tokens alone" in told) != published


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
            made = task.embedded(argparse.Namespace(**given))
        assert [e.line for e in made.train] == list(range(1, 10))
        assert [e.line for e in made.valid] == [1, 2, 3, 4]


def from_text(*paths: Path, **flags: Any) -> Task:
    """Return the task on a text of your own."""
    given = dict.fromkeys(OF_TEXT) | {"context": None, "tokens": 1, "size": "smoke"}
    return next_token.own(argparse.Namespace(data=[*map(str, paths)], **given | flags))


def test_every_window_has_its_line(tmp_path: Path) -> None:
    """Keeps out a message about a line of a text that is far from it, and a name of odd letters."""
    path = tmp_path / "counted.txt"
    path.write_text("".join(f"line {i} of many\n\n" for i in range(1, 3000)), "utf-8")
    made = from_text(path, context=8)
    lines = ["", *path.read_text("utf-8").split("\n"), *[""] * 50]
    for example in made.train:
        read = [] if example.src == [BOS] else example.src
        said = made.tokenizer.decode([*read, *example.tgt])
        assert said in "\n".join(lines[example.line : example.line + 50])
        assert said.split("\n")[1] in lines[example.line : example.line + 25]
    odd = path.rename(path.with_name("spo\udcffken.txt"))
    assert from_text(odd, context=8).data["name"] == r"spo\udcffken.txt"


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


def test_your_own_text(run: Run, tmp_path: Path) -> None:
    """Keeps out a text that must be English, in lines, or long."""
    rng = random.Random(1)
    said = " ".join(rng.choice(("čau", "světe", "jak", "se", "máš", "\n")) for _ in range(6000))
    (tmp_path / "mine.txt").write_text(said, encoding="utf-8")
    flags = "--data", tmp_path / "mine.txt", "--context", 8, "--models", "gpt"
    assert run(next_token, *flags, "--out", tmp_path / "out") == 0
    (made,) = check_folder(tmp_path / "out", ["gpt"])
    assert made["data"]["name"] == "mine.txt"
    assert made["data"]["tokenizer"].startswith("BPE")
    assert [b["low"] for b in made["tests"][0]["bins"]] == [0, 8]


# ----------------------------------------------------------------------------------------- recall


def answer(source: str, target: str = "") -> str:
    """Answer as a person would, who reads only the keys of a recall's target."""
    kind, *symbols = source.split()
    if kind == "recall":
        keys = target.split()[0::3]
        return " ".join(f"{key} : {symbols[2 * symbols[0::2].index(key) + 1]}" for key in keys)
    return " ".join(symbols if kind == "copy" else reversed(symbols))


def test_answers_by_hand() -> None:
    """Keeps out a checker below that is as wrong as what it checks."""
    assert answer("copy ba du fe") == "ba du fe"
    assert answer("reverse ba du fe") == "fe du ba"
    assert answer("recall ba du fe gi", "fe : ? ba : ?") == "fe : gi ba : du"


@pytest.mark.parametrize("kind", recall.KINDS)
def test_recall_is_answered(kind: str) -> None:
    """Keeps out a target that the source does not fix, or a question that is always the same."""
    rng, asked = random.Random(2), set()
    for n in (4, 6, 8, 32, 128) * 20:
        pair = recall.draw(rng, kind, n)
        words = pair.src.split()
        assert words[0] == kind
        assert len(words) == n + 1
        assert pair.tgt == answer(pair.src, pair.tgt)
        assert recall.n_symbols(pair) == n
        assert {*words[1:], *pair.tgt.split()} <= {*recall.SYMBOLS, ":"}
        if kind == "recall":
            keys = words[1::2]
            assert sorted(keys) == sorted(pair.tgt.split()[0::3])
            assert len(set(keys)) == len(keys) == n // 2
            asked.add(keys.index(pair.tgt.split()[0]) / len(keys))
    assert kind != "recall" or len(asked) > 10


def test_recall_tests_exact_lengths() -> None:
    """Keeps out a test set whose bins do not hold the lengths that they name."""
    made = recall.embedded(argparse.Namespace(size="smoke", tokens=None))
    size = recall.SIZES["smoke"]
    assert len(set(recall.SYMBOLS)) == len(recall.SYMBOLS) >= max(recall.LENGTHS) // 2
    for kind, test in zip(recall.KINDS, made.tests, strict=True):
        assert test.name == ("first-query" if kind == "recall" else kind)
        lengths = [n for n in recall.LENGTHS if n <= size["tested_to"]]
        assert sorted(test.x) == sorted(lengths * size["per_length"])
        assert [len(e.src) - 2 for e in test.examples] == test.x  # the kind and EOS
        found = [1 if kind == "recall" else n + 1 for n in test.x]
        assert [len(e.scored()) for e in test.examples] == found
        assert test.trained_to == size["trained_to"]
    assert max(len(e.src) for e in made.train) <= size["trained_to"] + 2
    assert all((e.tgt[-1] == EOS) == (not e.given) for e in made.train)


def test_a_recall_is_scored_on_values_alone() -> None:
    """Keeps out points for keys and colons, which are given, and a question that tells its end."""
    made = recall.embedded(argparse.Namespace(size="smoke", tokens=None))
    for example in made.tests[-1].examples:
        labels = made.tokenizer.tokens(example.tgt)
        assert made.tokenizer.tokens(example.scored()) == labels[2::3]
        assert set(labels[1::3]) == {":"}
    for example in made.train:
        labels = made.tokenizer.tokens(example.tgt)
        values = labels[2::3] if ":" in labels else labels
        assert made.tokenizer.tokens(example.scored()) == values


def test_the_shown_example_is_linked() -> None:
    """Keeps out gold links of another example: word i of a reversal comes from the end."""
    made = recall.embedded(argparse.Namespace(size="smoke", tokens=None))
    example, links = made.shown
    assert len(links) == len(example.tgt) - 1
    assert all(example.src[s] == example.tgt[t] for s, t in links)


# ------------------------------------------------------------------------------------- next token


@pytest.mark.parametrize("context", [0, 1, 8, 40, 68, 500])
def test_a_window_is_consecutive(context: int) -> None:
    """Keeps out a gap or an overlap between what is read and what is asked."""
    tokens = list(range(100, 200))
    src, tgt, *_ = next_token.window(tokens, context)
    assert tgt == tokens[-next_token.CONTINUATION :]
    read = [] if src == [BOS] else src
    assert [*read, *tgt] == tokens[-len(read) - len(tgt) :]
    assert len(read) == min(context, 68)
    assert (src == [BOS]) == (context == 0)


def test_short_texts_are_halved() -> None:
    """Keeps out a target without context where a story is short."""
    assert next_token.window([4, 5, 6, 7, 8], 100) == Example([4, 5, 6], [7, 8])


def test_contexts_double() -> None:
    """Keeps out a point twice, and one that is longer than asked."""
    assert next_token.contexts(0) == [0]
    assert next_token.contexts(8) == [0, 8]
    assert next_token.contexts(100) == [0, 8, 16, 32, 64, 100]
    assert next_token.contexts(128) == [0, 8, 16, 32, 64, 128]


def test_every_context_has_the_same_continuations() -> None:
    """Keeps out a gain by context that is only an easier continuation."""
    texts = [list(range(100 * i, 100 * i + 50 + i)) for i in range(1, 6)]
    whole = [Example(tokens[:-9], tokens[-9:]) for tokens in texts]
    test = next_token.context_test(whole, 40, train=[Example([5] * n, [6]) for n in (3, 24, 7)])
    assert test.trained_to == 24  # contexts that no training text had are drawn as such
    groups = [
        [e for e, x in zip(test.examples, test.x, strict=True) if x == k] for k, _ in test.bins
    ]
    assert [low for low, _ in test.bins] == [0, 8, 16, 32, 40]
    assert groups[0] == [Example([BOS], tokens[-9:]) for tokens in texts]
    for (k, _), group in zip(test.bins[1:], groups[1:], strict=True):
        for example, tokens in zip(group, texts, strict=True):
            assert [*example.src, *example.tgt] == tokens[-k - 9 :]


def test_half_of_the_windows_have_all_context() -> None:
    """Keeps out training that never sees the context of the test, or no other; seeds count."""
    texts = [list(range(72))] * 400
    lengths = [len(e.src) for e in next_token.windows(texts, 40, seed=1)]
    assert lengths != [len(e.src) for e in next_token.windows(texts, 40, seed=2)]
    assert {len(e.tgt) for e in next_token.windows(texts, 40, seed=1)} == set(range(1, 33))
    assert 0.4 < lengths.count(40) / 400 < 0.6
    assert len(set(lengths)) > 30
    assert all(e.src == [BOS] for e in next_token.windows(texts, 0, seed=1))


@pytest.mark.parametrize("context", [8, 40])
def test_your_own_text_is_scored_whole(context: int, tmp_path: Path) -> None:
    """Keeps out tokens that are never a target, and a test that training has seen."""
    words = [f"{i:05d}" for i in range(6000)]
    path = tmp_path / "counted.txt"
    path.write_text(" ".join(words), encoding="utf-8")
    made = from_text(path, context=context)
    said = [made.tokenizer.decode(e.tgt) for e in made.train]
    whole = "".join(said)
    assert all(len(e.tgt) == next_token.CONTINUATION for e in [*made.train, *made.valid])
    assert whole in path.read_text()
    assert len(whole) > 0.85 * path.stat().st_size
    tested = "".join(made.tokenizer.decode([*e.src, *e.tgt]) for e in made.tests[0].examples)
    assert min(int(w) for w in tested.split() if len(w) == 5) > 5600
    for example in made.tests[0].examples:
        begun = [] if example.src == [BOS] else example.src
        assert made.tokenizer.decode([*begun, *example.tgt]) in path.read_text()
    assert max(int(w) for w in whole.split() if len(w) == 5) < 5400
    n = next_token.CONTINUATION + max(context, 1)
    assert n <= made.recipes["gpt"].sizes["n_positions"]


@pytest.mark.parametrize("context", [2_049, 10**400])
def test_an_absurd_context_is_refused(context: int, tmp_path: Path) -> None:
    """Keeps out windows that take all memory, and a number too large to be one."""
    with pytest.raises(ValueError, match=r"^--context \d+: at most 2,048 with --data$"):
        from_text(tmp_path / "none", context=context)
    given = argparse.Namespace(context=context, tokens=1, size="smoke")
    with pytest.raises(ValueError, match=r"^--context \d+: the longest test story allows \d+$"):
        next_token.embedded(given)


def test_what_is_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record that names windows as tested which never were."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i} once upon a time. " for i in range(9_000)))
    whole = from_text(path, context=8)
    assert not [key for key in whole.data if key.startswith("n_left_out")]
    monkeypatch.setattr(next_token, "MOST", 10)
    made = from_text(path, context=8)
    assert (
        made.data["n_valid"]
        == whole.data["n_valid"]
        == len(made.valid) + made.data["n_left_out_valid"]
    )
    tested = len(made.tests[0].examples) / len(made.tests[0].bins)
    assert made.data["n_test"] == whole.data["n_test"] == tested + made.data["n_left_out_test"]


def test_a_language_model_has_no_context(tmp_path: Path) -> None:
    """Keeps out a source in plain language modelling, and a split that is not scored whole."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i} once upon a time. " for i in range(9_000)))
    made = from_text(path, context=0, block=20, stride=6, tokens=500)
    n_tokens = {split: made.data[f"n_tokens_{split}"] for split in SPLITS}
    assert [len(made.train), made.train[7].src, len(made.train[7].tgt)] == [
        n_tokens["train"] - 19, [BOS], 20,
    ]  # fmt: skip
    assert made.train[8].tgt[:-1] == made.train[7].tgt[1:]  # any token may be first
    assert [(test.name, test.headline) for test in made.tests] == [
        ("whole", "bits_per_byte"), ("valid", "bits_per_byte"),
    ]  # fmt: skip
    for test, split in zip(made.tests, ("test", "valid"), strict=True):
        assert sum(len(example.scored()) for example in test.examples) == n_tokens[split]
        assert [len(example.scored()) for example in test.examples][:2] == [20, 6]  # the stride
        assert {*test.x} == {*range(1, 11)}
        assert list(test.x) == sorted(test.x)
    assert sum(len(example.scored()) for example in made.valid) == 50  # a tenth of what is trained
    assert made.data["n_left_out_tokens_valid"] == n_tokens["valid"] - 50
    assert (made.data["context"], made.data["block"], made.data["stride"]) == (0, 20, 6)
    assert made.recipes["gpt"].sizes["n_positions"] == 21
    for name in ("gpt", "transformer"):
        assert made.recipes[name].sizes["dropout"] == 0.0


def test_a_whole_text_is_scored(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a perplexity that is not exp of the nats per word, and a record without it."""
    said = "".join(f"so he said {i % 7} and went\n" for i in range(900))
    (tmp_path / "said.txt").write_text(said)
    monkeypatch.setattr(tokenizers, "make", lambda kind, lines, size: tokenizers.Words.train(lines))
    flags = "--context", 0, "--block", 12, "--tokenizer", "words", "--models", "gpt", "--parameters"
    flags = *flags, 100_000, "--out", tmp_path / "out"
    assert run(next_token, "--data", tmp_path / "said.txt", *flags) == 0
    (made,) = check_folder(tmp_path / "out", ["gpt"])
    whole, valid = made["tests"]
    assert (whole["headline"], whole["axis"]) == ("perplexity", "place in the text (tenths)")
    for part in (whole["overall"], *whole["bins"], valid["overall"]):
        for key, nats in part["nats"].items():  # too few blocks have no interval
            expected = None if nats is None else pytest.approx(math.exp(nats))
            assert part["perplexity"][key] == expected
    table = (tmp_path / "out" / "tables.md").read_text()
    assert "| perplexity per word |" in table
    assert "1, first" in table


def test_shakespeare_is_as_in_nanogpt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out another protocol than the one whose figure stands beside ours."""
    plays = tmp_path / presets.TEXT["shakespeare"].local
    plays.parent.mkdir()
    plays.write_text("ROMEO:\nAy me!\n\n" * 2_000)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    monkeypatch.setattr(
        tokenizers, "make", lambda kind, lines, size: made_of.append(kind) or tokenizers.Bytes()
    )
    made_of: list[str] = []
    given = dict.fromkeys(OF_TEXT) | {"context": None, "tokens": None}
    made = next_token.own(argparse.Namespace(data=["shakespeare"], size="laptop", **given))
    assert made_of == ["characters"]
    assert made.training == {"tokens": 2_000 * 12 * 64, "batch_tokens": 12 * 64}
    assert len(next(shuffled(made.train, 12 * 64, seed=1, epoch=0))) == 12
    assert [len(test.examples) for test in made.tests] == [-(-3_000 // 64)]
    assert made.tests[0].headline == "nats"
    gpt = model_sizes("gpt", made)
    assert (gpt["d_model"], gpt["n_heads"], gpt["n_layers"], gpt["n_positions"]) == (128, 4, 4, 65)
    assert gpt["dropout"] == 0.0
    assert model_sizes("transformer", made)["is_prenorm"]
    assert {name: model_sizes(name, made)["vocab_size"] for name in MODELS}  # a width for each


def test_stories_need_their_word() -> None:
    """Keeps out a target that is cut from the wrong place, and a score on words that are given."""
    made = next_token.embedded(argparse.Namespace(size="smoke", context=8, tokens=None))
    context, distance = made.tests
    for example, x in zip(distance.examples, distance.x, strict=True):
        said = [w.strip(".,") for w in made.tokenizer.decode(example.src).split()]
        *asked, needed = (w.strip(",") for w in made.tokenizer.decode(example.tgt).split())
        assert made.tokenizer.decode(example.src).endswith(".")
        assert len(said) - said.index(needed) + len(asked) == x
        scored = [0] * (len(example.tgt) - 1) + [example.tgt[-1]]
        assert collate([example]).tgt_out.tolist() == [scored]
    n = len(distance.examples)
    assert [e.tgt for e in context.examples[:n]] == [e.tgt for e in distance.examples]


def test_the_paper_sizes_are_not_built(run: Run) -> None:
    """Keeps out a recipe that leaves a size to the paper: a laptop would train 100 M."""
    for task, n in ((recall, 500_000), (translation, 1_000_000), (next_token, 1_000_000)):
        for name, recipe in task.RECIPES.items():
            model = build(name, 100, d_model=64, **recipe.sizes)
            assert count_parameters(model) < n
