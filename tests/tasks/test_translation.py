"""Translation: the grammar, read by hand, and one's own sentences, at toy size."""

import hashlib
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import RESULTS, Run
from fake_records import scored

from seqmodels import EOS
from seqmodels.data.corpus import SPLITS
from seqmodels.experiments import compare
from seqmodels.experiments.task import Task
from seqmodels.models import PAPERS
from seqmodels.records import record
from seqmodels.report import style
from tasks import recipes
from tasks.synthetic.grammar import draw_corpus, draw_sentence
from tasks.synthetic.pairs import grammar_task, n_crossings
from tasks.synthetic.trees import Sentence
from tasks.translation import __main__ as translation
from tasks.translation import figure

# -------------------------------------------------------------------------------------- The grammar
READ = {
    "No new expensive picture fell.": "Kein neues teures Bild fiel.",
    "No new expensive chair falls.": "Kein neuer teurer Stuhl fällt.",
    "Our old doctor dances.": "Unser alter Arzt tanzt.",
    "Many old men dance.": "Viele alte Männer tanzen.",
    "All clever mice run.": "Alle klugen Mäuse laufen.",
    "She has fallen today.": "Sie ist heute gefallen.",
    "She had woken up loudly.": "Sie war laut aufgewacht.",
    "Jonas, whom they thanked, played.": "Jonas, dem sie dankten, spielte.",
    "No woman brings neighbours clocks, but my strong child is old.":
        "Keine Frau bringt Nachbarn Uhren, aber mein starkes Kind ist alt.",
    "The doctor trusted his doctor when a beautiful cow slept.":
        "Der Arzt vertraute seinem Arzt, als eine schöne Kuh schlief.",
    "Without many teachers, this cow near parks woke up behind him yesterday.":
        "Ohne viele Lehrer wachte diese Kuh bei Parks gestern hinter ihm auf.",
    "All strong queens said that we had wanted to be able to play.":
        "Alle starken Königinnen sagten, dass wir hatten spielen können wollen.",
    "A brother that must have been able to help Max rarely sees horses running.":
        "Ein Bruder, der Max muss haben helfen können, sieht selten Pferde laufen.",
    "His farmer that Maria, who travels now, watches has been allowed to run in clean old gardens.":
        "Sein Bauer, den Maria, die jetzt reist, beobachtet, hat in sauberen alten Gärten laufen "
        "dürfen.",
    "The beautiful woman carries our lamp, which belongs to the young teachers, whom Paul trusts.":
        "Die schöne Frau trägt unsere Lampe, die den jungen Lehrern gehört, denen Paul vertraut.",
    "Many villages pleased the quite hungry doctor, who disappeared behind the gardens, which "
    "disappeared, although Julia had been hungry.":
        "Viele Dörfer gefielen dem ziemlich hungrigen Arzt, der hinter den Gärten verschwand, die "
        "verschwanden, obwohl Julia hungrig gewesen war.",
    "Peter believes that Anna and Anna think that this girl loves the quite tired bears and that "
    "Julia waits.":
        "Peter glaubt, dass Anna und Anna denken, dass dieses Mädchen die ziemlich müden Bären "
        "liebt und dass Julia wartet.",
    "This expensive flower pleased my brothers, but because every hungry friend loved him, Max, "
    "who was clever, wanted to run.":
        "Diese teure Blume gefiel meinen Brüdern, aber weil jeder hungrige Freund ihn liebte, "
        "wollte Max, der klug war, laufen.",
    "Peter and a king were young, and the friendly kings said that he gave Emma knives in our "
    "river, which Julia showed my king.":
        "Peter und ein König waren jung, und die freundlichen Könige sagten, dass er Emma Messer "
        "in unserem Fluss gab, den Julia meinem König zeigte.",
}  # fmt: skip
LINKED = (
    "A–Ein brother–Bruder that–der must–muss have–haben been–können able–können to–können "
    "help–helfen Max–Max rarely–selten sees–sieht horses–Pferde running–laufen .–.",
    "Without–Ohne many–viele teachers–Lehrer this–diese cow–Kuh near–bei parks–Parks woke–wachte "
    "woke–auf up–wachte up–auf behind–hinter him–ihm yesterday–gestern .–.",
    "Felix–Felix has–muss to–muss travel–reisen and–und he–er must–muss often–oft be–sein "
    "brave–mutig .–.",
)


@pytest.fixture(scope="module")
def pairs() -> list[Sentence]:
    """Draw 4,000 sentences, half of them short, where the same English comes up again."""
    rng = random.Random(5)
    return [draw_sentence(rng, 4 + int(rng.random() * (2 if i % 2 else 40))) for i in range(4_000)]


def test_drawn_sentences_read_by_hand(pairs: list[Sentence]) -> None:
    """Keeps out a wrong case, ending, comma or order, other links, and English of two sentences."""
    drawn = {pair.en_text: pair for pair in pairs}
    assert all(drawn[pair.en_text] == pair for pair in pairs)
    assert len(drawn) < len(pairs)
    assert {en: drawn[en].de_text for en in READ} == READ
    links = {" ".join(f"{p.en[i]}–{p.de[j]}" for i, j in p.links) for p in pairs}
    assert links.issuperset(LINKED)


def test_corpus_splits() -> None:
    """Keeps out test sentences in train, thin bins, wrong lengths, a test that hangs on train."""
    train, valid, test = draw_corpus(0, 1000, 200, max_train=20, max_test=40, per_bucket=30)
    assert (len(train), len(valid), len(test)) == (1000, 200, 120)
    assert len({p.en_text for part in (train, valid, test) for p in part}) == 1320
    assert {pair.n_words for pair in train} == set(range(4, 21))
    assert max(pair.n_words for pair in valid) <= 20
    share = sum(n for n in (p.n_words for p in train) if n > 12) / sum(p.n_words for p in train)
    assert abs(share - 8 / 17) < 0.04  # as many words of every length
    for last in (10, 20, 30, 40):
        lengths = [pair.n_words for pair in test if last - 9 <= pair.n_words <= last]
        assert (len(lengths), {*lengths}) == (30, {*range(max(4, last - 9), last + 1)})
    small = draw_corpus(0, 10, 200, max_train=20, max_test=40, per_bucket=30)
    assert (small.test, small.valid, small.train) == (test, valid, train[:10])
    with pytest.raises(ValueError, match="4 or more"):
        draw_sentence(random.Random(0), 3)
    with pytest.raises(ValueError, match="multiple of 10"):
        draw_corpus(0, 1, 1, max_test=85)


def test_same_seed_same_corpus() -> None:
    """Keeps out hash order and whatever else differs between machines and Python versions."""
    pairs = [pair for part in draw_corpus(0, 300, 30, per_bucket=10) for pair in part]
    text = "\n".join(f"{pair.en_text}\t{pair.de_text}\t{pair.links}" for pair in pairs)
    digest = "71b0ced00dc8dfe85f790d496f884c34ac1eb7b17087098b00439c870a30ff28"
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_each_optimizer_has_its_recipes(optimizer: Any) -> None:
    """Keeps out the rates of one optimiser in the training with the other."""
    task = grammar_task(draw_corpus(2, 30, 5, per_bucket=2), 100, optimizer=optimizer)
    chosen = {"adamw": recipes.GRAMMAR, "muon": recipes.GRAMMAR_MUON}[optimizer]
    assert task.training["optimizer"] == optimizer
    rates = {name: recipe[1:] for name, recipe in task.recipes.items()}
    assert rates == {name: recipe[1:] for name, recipe in chosen.items()}


def test_the_task_that_is_made_of_it() -> None:
    """Keeps out sides that are exchanged, an example for the figure that is straight or long."""
    drawn = draw_corpus(2, 30, 5, max_train=12, max_test=20, per_bucket=20)
    task = grammar_task(drawn, 100, has_source_eos=False)
    assert task.tokenizer.decode(task.train[0].src) == drawn.train[0].en_text
    assert task.tokenizer.decode(task.train[0].tgt) == drawn.train[0].de_text
    assert [e.src[-1] == EOS for e in task.train] == [False] * 30
    assert (task.data["source_end"], task.data["n_train"]) == ("none", 30)
    (test,) = task.tests
    assert test.x == [s.n_words for s in drawn.test]
    assert test.buckets[:2] == [(1, 10), (11, 20)]
    assert test.max_train_length == max(s.n_words for s in drawn.train) < max(test.x)
    example, links = task.alignment_example
    assert (task.tokenizer.tokens(example.src), links) in [([*s.en], s.links) for s in drawn.test]
    assert 11 <= len(task.tokenizer.decode(example.src).split()) <= 16
    assert n_crossings(links) > 3
    assert n_crossings([(0, 2), (1, 0), (2, 1)]) == 2


# ----------------------------------------------------------------------------------------- The task
def task_on(data: object, *flags: str) -> Task:
    """Return the task on a folder of parallel text, or on a corpus by name."""
    tasks: list[Task] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "compare", lambda task, options: tasks.append(task))
        translation.main(["--data", str(data), "--size", "smoke", "--tokens", "1", *flags])
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
    lower = task_on(folder, "--lowercase")
    clean = task_on(folder, "--clean", "--optimizer", "muon")
    assert (lower.training["optimizer"], clean.training["optimizer"]) == ("adamw", "muon")
    assert lower.data["name"] == "spoken qaa→qab, lower-cased"
    assert clean.data["name"] == "spoken qaa→qab, cleaned"
    assert lower.training["label_smoothing"] == clean.training["label_smoothing"] == 0.1
    short = task_on(folder, "--max-tokens", "12")
    assert (short.data["max_tokens"], short.data["max_tokens_test"]) == (12, 24)
    assert short.data["n_too_long_train"] > 10
    assert max(max(len(e.src), len(e.tgt)) for e in short.train) == 12


def test_the_budget_fits_the_data(folder: Path) -> None:
    """Keeps out hundreds of epochs of a small corpus, and more than the default of a large one."""
    task = task_on(folder)
    epoch = sum(len(example.tgt) for example in task.train)
    recipe = translation.DEFAULT
    for given, size, expected in (
        (None, "laptop", 20 * epoch), (None, "smoke", min(45_000, 20 * epoch)), (7, "laptop", 7)
    ):  # fmt: skip
        assert translation.choose_budget(given, recipe, size, epoch) == expected
    assert translation.choose_budget(None, recipe, "laptop", 10**6) == 4_800_000
    assert translation.choose_budget(None, translation.MULTI30K, "laptop", epoch) == 7_000_000


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


def test_the_five_papers_have_a_figure_among_others() -> None:
    """Keeps out a variant or a later model in the figure of the five, and a figure drawn twice."""
    names = list(PAPERS)[:5]
    five = scored(dict.fromkeys(names, (80, 40, 20)))
    others = scored(dict.fromkeys(("linear_attention", "rnn_encdec_x2"), (80, 40, 20)))
    with style.context():
        (drawn,) = figure.draw_five([others[1], *five, others[0]]).values()
    labels = {text.get_text() for legend in drawn.figure.legends for text in legend.get_texts()}
    assert {label.partition(" (")[0] for label in labels} == {PAPERS[n].label for n in names}
    assert figure.draw_five(five) == figure.draw_five(others) == {}


def test_records_were_made_with_the_recipes() -> None:
    """Keeps out a learning rate or a size that no committed record was trained with."""
    for folder, chosen in {
        "live": recipes.GRAMMAR_MUON,
        "grammar": recipes.GRAMMAR_MUON,
        "grammar-laptop": recipes.GRAMMAR_MUON,
        "bible": translation.BIBLE.recipes,
        "multi30k": translation.MULTI30K.recipes,
        "multi30k-en-de": translation.FROM_ENGLISH.recipes,
    }.items():
        paths = sorted((RESULTS / f"translation-{folder}").glob("*-seed[0-9].json"))
        assert paths
        for path in paths:
            content = record.load(path)
            recipe, given = chosen[content["model"]], content["train_config"]
            assert (given["lr"], given.get("muon_lr", recipe.muon_lr)) == recipe[1:], path
            assert chosen[content["model"]].sizes.items() <= content["model_config"].items(), path
