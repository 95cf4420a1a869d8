"""Next token: stories and one's own text, cut into contexts and continuations."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from seqmodels import BOS
from seqmodels.data import SPLITS, corpora, tokenizers
from seqmodels.data.batches import Example, collate, shuffled_batches
from seqmodels.experiments.sweep import make_spec, model_sizes
from seqmodels.experiments.task import Task
from tasks.next_token import __main__ as next_token
from tasks.next_token import windows


def task_on(*data: object, **flags: Any) -> Task:
    """Return the task on one's own text, or on a text by name."""
    given = vars(next_token.PARSER.parse_args(["--size", "smoke", "--tokens", "1"]))
    given |= {"data": [*map(str, data)]} | flags
    return next_token.corpus_task(argparse.Namespace(**given))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i} once upon a time. " for i in range(3_000)))
    return path


def test_every_context_has_the_same_continuations() -> None:
    texts = [list(range(100 * i, 100 * i + 50 + i)) for i in range(1, 6)]
    full = [Example(tokens[:-9], tokens[-9:]) for tokens in texts]
    test = windows.context_test(full, 40, train=[Example([5] * n, [6]) for n in (3, 24, 7)])
    assert test.primary_metric == "bits_per_byte"
    assert test.max_train_length == 24  # contexts that no training text had are drawn as such
    assert [low for low, _ in test.buckets] == [0, 8, 16, 32, 40]
    for k, _ in test.buckets:
        group = [e for e, x in zip(test.examples, test.x, strict=True) if x == k]
        assert group == [Example(t[-k - 9 : -9] if k else [BOS], t[-9:]) for t in texts]


def test_a_context_is_as_long_as_the_stories_allow() -> None:
    given = argparse.Namespace(size="smoke", context=0, tokens=None)
    none, distance = next_token.builtin_task(given).tests
    assert {*none.x} == {0}
    given.context = max(len(example.src) for example in distance.examples)
    assert max(next_token.builtin_task(given).tests[0].x) == given.context
    given.context += 1
    with pytest.raises(ValueError, match=f"the longest test story allows {given.context - 1}"):
        next_token.builtin_task(given)


def test_the_needed_word_alone_is_scored() -> None:
    task = next_token.builtin_task(argparse.Namespace(size="smoke", context=8, tokens=None))
    context, distance = task.tests
    assert task.data["context"] == max(context.x) == 8
    assert [low for low, _ in distance.buckets] == sorted({*distance.x}) == [8, 16, 32, 64, 128]
    for example, x in zip(distance.examples, distance.x, strict=True):
        story = [w.strip(".,") for w in task.tokenizer.decode(example.src).split()]
        *cue, needed = (w.strip(",") for w in task.tokenizer.decode(example.tgt).split())
        assert task.tokenizer.decode(example.src).endswith(".")
        assert len(story) - story.index(needed) + len(cue) == x
        scored = [0] * (len(example.tgt) - 1) + [example.tgt[-1]]
        assert collate([example]).tgt_out.tolist() == [scored]
    n = len(distance.examples)
    assert [e.tgt for e in context.examples[:n]] == [e.tgt for e in distance.examples]


@pytest.mark.parametrize("context", [8, 40])
def test_a_text_is_cut_into_continuations(context: int, tmp_path: Path) -> None:
    path = tmp_path / "counted.txt"
    path.write_text(" ".join(f"{i:05d}" for i in range(6000)))
    task = task_on(path, context=context)
    assert all(len(e.tgt) == windows.CONTINUATION for e in [*task.train, *task.valid])
    targets = "".join(task.tokenizer.decode(e.tgt) for e in task.train)
    assert targets in path.read_text()
    assert len(targets) > 0.85 * path.stat().st_size
    assert max(int(w) for w in targets.split() if len(w) == 5) < 5400
    for example in task.tests[0].examples:
        read = [] if example.src == [BOS] else example.src
        text = task.tokenizer.decode([*read, *example.tgt])
        assert text in path.read_text()
        assert min(int(w) for w in text.split() if len(w) == 5) > 5600
    n = windows.CONTINUATION + context
    assert n <= task.recipes["gpt"].sizes["n_positions"]


def test_untested_windows_are_counted(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = task_on(text, context=8)
    assert not [key for key in full.data if key.startswith("n_left_out")]
    monkeypatch.setattr(windows, "MAX_EVAL", 10)
    task = task_on(text, context=8)
    (n_tested,) = {*Counter(task.tests[0].x).values()}
    for split, n in (("valid", len(task.valid)), ("test", n_tested)):
        assert 0 < n <= 10
        assert task.data[f"n_{split}"] == full.data[f"n_{split}"]
        assert task.data[f"n_left_out_{split}"] == task.data[f"n_{split}"] - n
    every, some = (
        [e.src for e, x in zip(one.tests[0].examples, one.tests[0].x, strict=True) if x == 8]
        for one in (full, task)
    )
    assert every.index(some[-1]) > 0.6 * len(every)  # over the whole text


@pytest.mark.parametrize(("kind", "metric"), [
    ("bpe", "bits_per_byte"), ("characters", "nats"), ("words", "perplexity"),
])  # fmt: skip
def test_without_context_each_token_of_a_split_is_scored_once(
    kind: str, metric: str, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = task_on(text, context=0, block=20, tokens=500, tokenizer=(kind, None))
    noted = "perplexity is comparable only with the same tokens" in capsys.readouterr().out
    assert noted == (metric == "perplexity")
    n_tokens = {split: task.data[f"n_tokens_{split}"] for split in SPLITS}
    assert len(task.train) == n_tokens["train"] - 19
    assert (task.train[7].src, len(task.train[7].tgt)) == ([BOS], 20)
    assert task.train[8].tgt[:-1] == task.train[7].tgt[1:]  # any token may be first
    assert [test.name for test in task.tests] == ["whole", "valid"]
    for test, split in zip(task.tests, ("test", "valid"), strict=True):
        assert (test.primary_metric, test.kind) == (metric, "place")
        n_scored = [len(example.scored()) for example in test.examples]
        assert (sum(n_scored), n_scored[:2]) == (n_tokens[split], [20, 20])
        assert {*test.x} == {*range(1, 11)}
        n_groups = len({*test.groups})  # as many as there are neighbours in each
        assert n_groups == pytest.approx(len(test.examples) ** 0.5, abs=1)
        assert list(test.x) == sorted(test.x)
    assert sum(len(example.scored()) for example in task.valid) == 50  # a tenth of what is trained
    assert len(task_on(text, context=0, block=20, tokens=199).valid[0].tgt) == 20  # not 19
    assert task.data["n_left_out_tokens_valid"] == n_tokens["valid"] - 50
    assert (task.data["context"], task.data["block"], task.data["stride"]) == (0, 20, 20)
    assert task.recipes["gpt"].sizes["n_positions"] == 21


def test_blocks_of_a_long_text_start_apart(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n = task_on(text, context=0, block=20).data["n_tokens_train"]
    for most, apart in ((n, 1), (n - 1, 2), (9, 20)):
        monkeypatch.setattr(windows, "MAX_BLOCKS", most)
        assert [*task_on(text, context=0, block=20).train.starts] == [*range(0, n - 19, apart)]


def test_shakespeare_is_as_in_nanogpt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plays = tmp_path / corpora.TEXT["shakespeare"].local
    plays.parent.mkdir()
    plays.write_text("ROMEO:\nAy me!\n\n" * 2_000)
    monkeypatch.setenv("SEQMODELS_DATA", str(tmp_path))
    task = task_on("shakespeare", size="laptop", tokens=None)
    assert isinstance(task.tokenizer, tokenizers.Characters)
    assert task.training == {"tokens": 2_000 * 12 * 64, "batch_tokens": 12 * 64}
    assert len(next(shuffled_batches(task.train, 12 * 64, seed=1, epoch=0))) == 12
    assert [len(test.examples) for test in task.tests] == [-(-3_000 // 64)]
    assert task.tests[0].primary_metric == "nats"
    gpt = model_sizes(make_spec("gpt"), task)
    assert (gpt["n_heads"], gpt["n_layers"], gpt["n_positions"], gpt["dropout"]) == (4, 4, 65, 0.0)
