"""Next token: stories and one's own text, end to end at toy size."""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path

import pytest
from checks import check_folder
from conftest import Run
from own_data import from_text

from seqmodels import BOS, MODELS
from seqmodels.comparison.arm import model_sizes
from seqmodels.data import presets, tokenizers
from seqmodels.data.batches import Example, collate, contexts, shuffled_batches
from seqmodels.data.corpus import SPLITS
from tasks.next_token import __main__ as next_token
from tasks.next_token.__main__ import OWN_DATA_FLAGS


def test_next_token_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a task without free-running scores breaking the record or the figures."""
    flags = "--models", "gpt", "lstm_seq2seq", "--context", 20, "--out", tmp_path
    assert run(next_token, *flags) == 0
    records = check_folder(tmp_path, ["gpt", "lstm_seq2seq"])
    context, distance = records[0]["tests"]
    assert [b["low"] for b in context["buckets"]] == [0, 8, 16, 20]
    assert len({b["n"] for b in context["buckets"]}) == 1
    assert [b["low"] for b in distance["buckets"]] == [8, 16, 32]
    assert records[0]["data"]["context"] == 20
    assert "bleu" not in context["overall"]


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
    assert contexts(0) == [0]
    assert contexts(8) == [0, 8]
    assert contexts(100) == [0, 8, 16, 32, 64, 100]
    assert contexts(128) == [0, 8, 16, 32, 64, 128]


def test_every_context_has_the_same_continuations() -> None:
    """Keeps out a gain by context that is only an easier continuation."""
    texts = [list(range(100 * i, 100 * i + 50 + i)) for i in range(1, 6)]
    whole = [Example(tokens[:-9], tokens[-9:]) for tokens in texts]
    test = next_token.context_test(whole, 40, train=[Example([5] * n, [6]) for n in (3, 24, 7)])
    assert test.max_train_length == 24  # contexts that no training text had are drawn as such
    groups = [
        [e for e, x in zip(test.examples, test.x, strict=True) if x == k] for k, _ in test.buckets
    ]
    assert [low for low, _ in test.buckets] == [0, 8, 16, 32, 40]
    assert groups[0] == [Example([BOS], tokens[-9:]) for tokens in texts]
    for (k, _), group in zip(test.buckets[1:], groups[1:], strict=True):
        for example, tokens in zip(group, texts, strict=True):
            assert [*example.src, *example.tgt] == tokens[-k - 9 :]


def test_a_recipe_may_have_dropout() -> None:
    """Keeps out dropout that a corpus's recipe asks for and no model gets, and any on stories."""
    novel = next_token.CORPUS_RECIPES["war-and-peace"].recipes
    for chosen, dropout in ((novel, 0.1), (next_token.RECIPES, 0.0)):
        made = next_token.recipes(99, chosen)
        assert {made[m].sizes["dropout"] for m in ("transformer", "gpt")} == {dropout}
        assert made["gpt"].sizes["n_positions"] == 99
    assert {novel[m].sizes["dropout"] for m in MODELS} == {0.1}


def test_half_of_the_windows_have_all_context() -> None:
    """Keeps out training that never sees the context of the test, or no other; seeds count."""
    texts = [list(range(72))] * 400
    lengths = [len(e.src) for e in next_token.windows(texts, 40, seed=1)]
    assert lengths != [len(e.src) for e in next_token.windows(texts, 40, seed=2)]
    assert {len(e.tgt) for e in next_token.windows(texts, 40, seed=1)} == set(range(1, 33))
    assert 0.4 < lengths.count(40) / 400 < 0.6
    assert len(set(lengths)) > 30
    assert all(e.src == [BOS] for e in next_token.windows(texts, 0, seed=1))


def test_stories_need_their_word() -> None:
    """Keeps out a target that is cut from the wrong place, and a score on words that are given."""
    made = next_token.builtin_task(argparse.Namespace(size="smoke", context=8, tokens=None))
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


# ------------------------------------------------------------------------------------ your own text


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
    assert [b["low"] for b in made["tests"][0]["buckets"]] == [0, 8]


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
        next_token.builtin_task(given)


def test_what_is_left_out_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record that names windows as tested which never were."""
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{i} once upon a time. " for i in range(9_000)))
    whole = from_text(path, context=8)
    assert not [key for key in whole.data if key.startswith("n_left_out")]
    monkeypatch.setattr(next_token, "MAX_EVAL", 10)
    made = from_text(path, context=8)
    assert (
        made.data["n_valid"]
        == whole.data["n_valid"]
        == len(made.valid) + made.data["n_left_out_valid"]
    )
    tested = len(made.tests[0].examples) / len(made.tests[0].buckets)
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
    assert [(test.name, test.primary_metric) for test in made.tests] == [
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
    assert (whole["primary_metric"], whole["axis"]) == ("perplexity", "place in the text (tenths)")
    for part in (whole["overall"], *whole["buckets"], valid["overall"]):
        for key, nats in part["nats"].items():  # too few blocks have no interval
            expected = None if nats is None else pytest.approx(math.exp(nats))
            assert part["perplexity"][key] == expected
    table = (tmp_path / "out" / "tables.md").read_text()
    assert "perplexity (per token) by place" in table


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
    given = dict.fromkeys(OWN_DATA_FLAGS) | {"context": None, "tokens": None}
    made = next_token.corpus_task(argparse.Namespace(data=["shakespeare"], size="laptop", **given))
    assert made_of == ["characters"]
    assert made.training == {"tokens": 2_000 * 12 * 64, "batch_tokens": 12 * 64}
    assert len(next(shuffled_batches(made.train, 12 * 64, seed=1, epoch=0))) == 12
    assert [len(test.examples) for test in made.tests] == [-(-3_000 // 64)]
    assert made.tests[0].primary_metric == "nats"
    gpt = model_sizes("gpt", made)
    assert (gpt["d_model"], gpt["n_heads"], gpt["n_layers"], gpt["n_positions"]) == (128, 4, 4, 65)
    assert gpt["dropout"] == 0.0
    assert model_sizes("transformer", made)["is_prenorm"]
    assert {name: model_sizes(name, made)["vocab_size"] for name in MODELS}  # a width for each


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
    given = dict.fromkeys(OWN_DATA_FLAGS) | {
        "context": 0,
        "tokens": 900,
        "size": "smoke",
    }
    given |= {"tokenizer": "words"}
    for name, published in (("wikitext-2", True), ("wikitext-2-raw", False)):
        made = next_token.corpus_task(argparse.Namespace(data=[name], **given))
        labels = made.tokenizer.tokens(made.train[0].tgt)
        assert {"<unk>", "@,@", "\\n"} < set(labels)
        assert made.tests[0].primary_metric == "perplexity"
        assert made.data["n_tokens_test"] >= 900 * 9
        told = capsys.readouterr().out
        assert ("as published for WikiText-2" in told) == published
        assert ("comparable only with the same tokens" in told) != published
