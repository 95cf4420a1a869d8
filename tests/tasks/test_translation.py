"""Translation: the corpus of the grammar, and one's own sentences."""

import random
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RESULTS, Run, fields_of
from fake_records import as_records, scored

from seqmodels import EOS
from seqmodels.data import SPLITS
from seqmodels.data.text import read_lines
from seqmodels.data.tokenizers import Bytes, Words
from seqmodels.experiments import launch
from seqmodels.experiments.task import Task
from seqmodels.models import FIVE, PAPERS
from seqmodels.records.io import load as load_record
from seqmodels.report import style
from tasks import recipes
from tasks.flags import run
from tasks.translation import __main__ as translation
from tasks.translation import corpus, figure


def task_on(data: object, *flags: str) -> Task:
    """Return the task on a folder of parallel text, or on a corpus by name."""
    tasks: list[Task] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "compare", lambda task, *_, **__: tasks.append(task))
        given = ["--data", str(data), "--size", "smoke", "--tokens", "1", *flags]
        run(translation.PARSER, translation.make_task, given)
    return tasks[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a parallel corpus in two invented languages; targets are longer than sources."""
    rng, folder = random.Random(1), tmp_path / "spoken"
    folder.mkdir()
    words = {"ka": "ka ta", "lo": "lorin", "mi": "mi", "so": "soo"}
    for split, n in (("train", 80), ("valid", 8), ("test", 9)):
        lines = [[rng.choice([*words]) for _ in range(rng.randint(2, 15))] for _ in range(n)]
        targets = [[words[word] for word in line] for line in lines]
        sides = ("".join(" ".join(line) + "\n" for line in side) for side in (lines, targets))
        append(folder, split, *sides)
    return folder


def append(folder: Path, split: str, src: str, tgt: str) -> None:
    for code, text in (("qaa", src), ("qab", tgt)):
        with (folder / f"{split}.{code}").open("a") as file:
            file.write(text)


def test_what_a_model_can_hardly_exceed_with_its_tokenizer() -> None:
    targets = ["so al·legar ja wie er ist"]
    spaced = Words(["ja", "so", "wie", "er", "ist", "·", "al", "legar"])
    # (5/8 · 3/7 · 2/6 · 1/5)^(1/4): eight tokens, and not the six of the target
    assert corpus.describe_round_trip(spaced, targets, "13a") == (
        "The tokenizer's round trip: a model can hardly exceed BLEU 36.6; "
        "so al·legar ja wie er ist → so al · legar ja wie er ist\n"
    )
    assert corpus.describe_round_trip(Bytes(), targets, "13a") == ""
    longer = ["ja ja ja so so so al·legar ja wie er ist", *targets]
    assert corpus.describe_round_trip(spaced, longer, "13a").split("; ")[1].startswith("so al·l")


@pytest.mark.parametrize(("sources", "targets", "metric", "unit", "tokenize"), [
    ("ka\nta\nlo\n", "one two, three\na b c d\nx\n", "bleu", "words", "13a"),
    ("ka\nta\nlo\n", "a b c\none two three\na b c d e\n", "exact_match", "words", "13a"),
    ("我们\n你好\n他\n", "我们很好\n你们好吗\n他们好\n", "bleu", "characters", "zh"),
])  # fmt: skip
def test_scores_fit_the_script_and_the_length_of_targets(
    sources: str, targets: str, metric: str, unit: str, tokenize: str, tmp_path: Path, capsys: Any
) -> None:
    append(tmp_path, "train", "ka ta\n" * 200, "ta ka\n" * 200)
    for split in ("valid", "test"):
        append(tmp_path, split, sources, targets)
    task = task_on(tmp_path)
    assert [(test.primary_metric, test.unit) for test in task.tests] == [(metric, unit)] * 2
    assert task.bleu_tokenize == task.data["bleu_tokenize"] == tokenize
    assert ("is exact match" in capsys.readouterr().out) == (metric == "exact_match")


@pytest.mark.usefixtures("undrawn")
def test_own_sentences_have_a_direction(
    run: Run, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    append(folder, "train", "\n" + "ka " * 900 + "\n", "kata\nkata\n")
    flags = "--data", folder, "--models", "gpt", "--out", tmp_path / "out"
    assert run(translation, *flags) == 0
    content = fields_of(tmp_path / "out" / "gpt-seed1.json")
    assert content["data"]["name"] == "spoken qaa→qab"
    counts = {k: n for k, n in content["data"].items() if k.startswith("n_")}
    assert all(counts.pop(f"n_tokens_{split}") > 40 for split in SPLITS)
    assert {key: n for key, n in counts.items() if n} == {
        "n_train": 80, "n_valid": 8, "n_test": 9, "n_too_long_train": 1, "n_blank_train": 1,
    }  # fmt: skip
    assert [(t["name"], t["beam"]) for t in content["tests"]] == [("length", 5), ("greedy", 1)]
    assert content["beam"] == 5
    assert run(translation, *flags, "--source", "qab") == 2
    assert "data.name was spoken qaa→qab, is spoken qab→qaa" in capsys.readouterr().err


def test_the_grammar_is_split_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[Task] = []
    monkeypatch.setattr(launch, "compare", lambda task, *_, **__: tasks.append(task))
    for flags in ([], ["--tokenizer", "characters"], ["--tokenizer", "bpe:400"],
                  ["--set", "optimizer=adamw"]):  # fmt: skip
        run(translation.PARSER, translation.make_task, ["--size", "smoke", *flags])
    kinds = [task.data["tokenizer"].split(" (")[0] for task in tasks]
    assert kinds == ["words", "characters", "BPE", "words"]
    assert [task.alignment_example.links is None for task in tasks[:3]] == [False, True, True]
    assert [task.training["optimizer"] for task in tasks] == ["muon"] * 3 + ["adamw"]
    assert tasks[3].recipes["bahdanau"].lr == recipes.GRAMMAR["bahdanau"].lr
    assert tasks[2].tokenizer.vocab_size == 400
    assert len({task.data["sha256"] for task in tasks}) == 1
    texts = [[task.tokenizer.decode(e.tgt) for e in task.train[:30]] for task in tasks]
    assert texts[0] == texts[1] == texts[2]


def test_the_budget_fits_the_data(folder: Path, capsys: Any) -> None:
    task = task_on(folder)
    made = load_record(next(RESULTS.glob("translation-multi30k/bahdanau-seed1.json")))
    assert task.training["label_smoothing"] == made.train_config.label_smoothing
    epoch = sum(len(example.tgt) for example in task.train)
    recipe = corpus.DEFAULT

    def choose(tokens: int | None, recipe: Any, size: str, n_train: int) -> int:
        return corpus.choose_budget(Namespace(tokens=tokens, size=size), recipe, n_train)

    for given, size, expected in (
        (None, "laptop", 20 * epoch), (None, "smoke", min(45_000, 20 * epoch)), (7, "laptop", 7)
    ):  # fmt: skip
        assert choose(given, recipe, size, epoch) == expected
    assert choose(None, recipe, "laptop", 10**6) == 4_800_000
    assert "4,800,000 target tokens, 4.8 epochs of train (" in capsys.readouterr().out
    assert choose(None, corpus.MULTI30K, "laptop", epoch) == 7_000_000


def test_a_very_long_test_sentence_is_left_out(folder: Path) -> None:
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
    given = [*read_lines(folder / "test.qaa")]
    assert [src for src, _ in test.texts] == [*given[:9], given[10]]
    assert any(low <= max(test.x) <= high for low, high in test.buckets)
    seen = [*task.train, *task.valid, *test.examples]
    longest = max(max(len(e.src), len(e.tgt) // 2) for e in seen)
    assert task.recipes["gpt"].sizes["n_positions"] == longest + 2 * longest + 10
    assert task.alignment_example == before.alignment_example
    nearest = max(lengths for lengths in map(len, map(str.split, given[:9])))  # to 16 words
    shown = task.tokenizer.decode(task.alignment_example.example.src)
    assert len(shown.split()) == nearest > min(map(len, map(str.split, given[:9])))


def test_which_sources_end_with_eos(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "multi30k").mkdir()
    for split in SPLITS:
        for ours, theirs in (("qaa", "de"), ("qab", "en")):
            name = f"{'test_2016_flickr' if split == 'test' else split}.{theirs}"
            text = (folder / f"{split}.{ours}").read_bytes().upper()
            (tmp_path / "multi30k" / name).write_bytes(text)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    for data, flags, end in (
        (folder, (), "EOS"),
        ("multi30k", ("--source", "de"), "none"),
        ("multi30k", ("--source", "en"), "none"),
    ):
        task = task_on(data, *flags)
        assert task.data["source_end"] == end
        shown = [task.train[0], task.tests[0].examples[0], task.alignment_example.example]
        assert [e.src[-1] == EOS for e in shown] == [end == "EOS"] * 3
        assert task.tokenizer.decode(shown[0].tgt).islower()


def test_the_five_papers_have_a_figure_with_their_names_at_the_lines() -> None:
    five = as_records(scored(dict.fromkeys(FIVE, (80, 40, 20))))
    rest = as_records(scored(dict.fromkeys(("linear_attention", "rnn_encdec_tanh"), (80, 40, 20))))
    with style.context():
        (drawn,) = figure.draw_five([rest[1], *five, rest[0]]).values()
    (ax,) = drawn.axes
    names = {text.get_text().partition(" (")[0]: text.get_position()[1] for text in ax.texts}
    heights = [names[PAPERS[model].label] for model in FIVE]
    gaps = np.diff(sorted(heights))
    assert min(heights) == 20
    assert (gaps > 0.05 * np.ptp(ax.get_ylim())).all()  # their ends coincide, their names do not
    assert figure.draw_five(five[1:]) == figure.draw_five(rest) == {}


def test_records_of_the_default_were_made_with_its_settings(monkeypatch: Any) -> None:
    sizes = translation.SIZES["laptop"] | {"n_train": 1_000, "n_valid": 5, "per_bucket": 10}
    monkeypatch.setitem(translation.SIZES, "laptop", sizes)
    task = translation.make_task(translation.PARSER.parse_args([]))
    paths = sorted((RESULTS / "translation-grammar-laptop").glob("*-seed[0-9].json"))
    assert {*FIVE} <= {path.name.partition("-")[0] for path in paths} <= {*PAPERS}
    for path in paths:
        saved = load_record(path)
        settings = {name: getattr(saved.train_config, name) for name in task.training}
        assert settings == task.training, path
        assert saved.n_parameters == pytest.approx(task.n_parameters, rel=0.05), path
        (own,), (recorded,) = task.tests, saved.tests
        assert own.max_train_length == recorded.max_train_length
        assert {low for low, _ in own.buckets} >= {b.low for b in recorded.buckets}
        assert max(own.x) == recorded.buckets[-1].high


def test_records_were_made_with_the_recipes() -> None:
    for folder, chosen in {
        "live": recipes.GRAMMAR_MUON,
        "grammar": recipes.GRAMMAR_MUON,
        "grammar-laptop": recipes.SMALL,
        "bible": corpus.BIBLE.recipes,
        "multi30k": corpus.MULTI30K.recipes,
        "multi30k-en-de": corpus.FROM_ENGLISH.recipes,
    }.items():
        paths = sorted((RESULTS / f"translation-{folder}").glob("*-seed[0-9].json"))
        assert paths
        for path in paths:
            content = fields_of(path)
            recipe, given = chosen[content["model"]], content["train_config"]
            assert (given["lr"], given.get("muon_lr", recipe.muon_lr)) == recipe[1:], path
            assert chosen[content["model"]].sizes.items() <= content["model_config"].items(), path
