"""GPT-2's heads on English sentences: the words' roles, their tokens, and what is written."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Call, check_one_line
from torch.testing import assert_close
from toys import planted_gpt

from seqmodels import build
from tasks.heads import gpt2, pairs

DOG = gpt2.read_sentence("The/a1 dog/n1s2 that/r1 saw/v1 a/a2 cat/n2o1 , slept/v2 .")
LINES = gpt2.SENTENCES.read_text(encoding="utf-8").splitlines()


class Chunks:
    """A stand-in for GPT-2's tokenizer: words with their blanks, four letters at a time."""

    vocab_size = 500

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        chunks = [c for word in re.findall(r" ?\w+|[.,]", text) for c in re.findall(".{1,4}", word)]
        return [self.ids.setdefault(chunk, 4 + len(self.ids)) for chunk in chunks]


def test_marks_say_what_words_are() -> None:
    assert DOG.words == ("The", "dog", "that", "saw", "a", "cat", ",", "slept", ".")
    assert DOG.tags.heads == (1, 7, 1, -1, 5, 3, -1, -1, -1)
    assert DOG.tags.kinds[1:4] == ("noun", "relative pronoun", "verb")
    assert DOG.tags.roles[:6] == ("", "subject", "", "", "", "object")
    found = {*gpt2.pair_sentence(DOG)[0]}
    assert {("noun → article", 2, 1), ("noun → article", 6, 5), ("verb → subject", 8, 2),
            ("relative pronoun → noun", 3, 2), ("noun → verb", 6, 4), ("own", 0, 0),
            ("previous", 1, 0), ("start of sentence", 9, 0)} <= found  # fmt: skip
    assert not {pair for pair in found if pair[2] > pair[1]}
    with pytest.raises(ValueError, match="what is /q1"):
        gpt2.read_sentence("The/q1 dog .")


def test_tokens_are_those_of_their_words() -> None:
    """The words have 1, 1, 2 and 1 tokens; a word asks as its last one, and is given their sum."""
    sentence = gpt2.read_sentence("The/a1 dog/n1s1 slept/v1 .")
    ids = gpt2.encode_words(sentence, Chunks())
    assert ids == [[4], [5], [6, 7], [8]]
    short = gpt2.encode_words(gpt2.read_sentence("Dogs/n1s1 bark/v1 ."), Chunks())
    assert short == [[4], [5, 6], [7]]
    looks_back = gpt2.weigh_words(planted_gpt(4 * torch.eye(64).roll(-1, 0)), [short, ids])[1, 0]
    expected = torch.zeros(5, 5, dtype=torch.double)
    for i, j in enumerate((0, 0, 1, 3, 3)):  # the last token of "slept" looks at its first
        expected[i, j] = 1
    assert_close(looks_back, expected, atol=1e-3, rtol=0)
    uniform = gpt2.weigh_words(planted_gpt(torch.zeros(64, 64)), [short, ids])[:, 0]
    assert_close(uniform[1, 3], torch.tensor([0.2, 0.2, 0.2, 0.4, 0]).double())
    assert_close(uniform[0, 2], torch.tensor([0.25, 0.25, 0.5, 0, 0]).double())
    assert not uniform[0, 4].any()


def test_a_tokenizer_that_joins_words_is_refused() -> None:
    class Whole(Chunks):
        def encode(self, text: str) -> list[int]:
            return [len(text)]

    with pytest.raises(ValueError, match="joins words of 'The dog that saw a cat, slept"):
        gpt2.encode_words(DOG, Whole())


def test_a_planted_head_finds_the_articles() -> None:
    """It looks one token back: where no adjective is between, at the article."""
    lines = ["The/a1 dog/n1s1 saw/v1 a/a2 cat/n2o1 .", "A/a1 big/n2 cat/n1s1 saw/v1 us ."]
    sentences = [gpt2.read_sentence(line) for line in lines]
    found = gpt2.measure_heads(planted_gpt(4 * torch.eye(64).roll(-1, 0)), Chunks(), sentences)
    shares = {row["pair"]: (row["n"], row["share"]) for row in found["heads"]}
    assert shares["noun → article"] == (3, pytest.approx(200 / 3, abs=0.1))
    assert shares["verb → subject"] == (2, pytest.approx(100, abs=0.1))
    assert shares["noun → verb"] == (1, pytest.approx(0, abs=0.1))


def test_a_hundred_sentences_are_marked() -> None:
    sentences = [gpt2.read_sentence(line) for line in LINES]
    assert len({s.words for s in sentences}) == len(sentences) == 100
    n_pairs: dict[str, int] = {}
    for s in sentences:
        assert s.words[-1] == "."
        for i, (kind, role, head) in enumerate(zip(*s.tags, strict=True)):
            wanted = {"article": "noun", "relative pronoun": "noun", "noun": "verb"}.get(kind)
            assert (head >= 0) == bool(role or kind in ("article", "relative pronoun")), s
            assert head < 0 or s.tags.kinds[head] == wanted, s
            assert kind != "article" or i < head <= i + 3, s
            assert kind != "relative pronoun" or head < i, s
            assert role != "subject" or i < head, s
            assert role != "object" or i > head, s
            assert s.words[i].isalpha() == (kind not in (",", ".")), s
        for name in {pair[0] for pair in gpt2.pair_sentence(s)[0]}:
            n_pairs[name] = n_pairs.get(name, 0) + 1
    assert n_pairs["relative pronoun → noun"] >= 20
    assert min(n_pairs[name] for name in ("noun → article", "verb → subject", "noun → verb")) > 80
    assert n_pairs[pairs.CLOSEST] >= 50


def test_weights_are_measured_from_the_command_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "heads.json"
    given: Any = (gpt2, "--weights", tmp_path, "--out", out)
    check_one_line(call(*given), "has no config.json; fetch GPT-2 by: hf download openai-community")
    (tmp_path / "config.json").touch()
    model = build("gpt", 500, d_model=24, n_heads=3, n_layers=2, n_positions=64, init_std=0.3)
    monkeypatch.setattr(gpt2, "load_gpt2", lambda _: (model.eval(), Chunks(), None))
    monkeypatch.setattr(gpt2, "SENTENCES", short := tmp_path / "short.txt")
    short.write_text("\n".join(LINES[:9]) + "\n")
    code, printed, err = call(*given)
    assert code == 0, err
    written = json.loads(out.read_text())
    assert (written["n_sentences"], written["model"]["n_heads"]) == (9, 3)
    whole, *muted = written["analyses"]["muting"]
    heads = written["analyses"]["heads"]
    assert len([row for row in heads if row["pair"] == "verb → subject"]) == 6
    best = max((r for r in heads if r["pair"] == "verb → subject"), key=lambda row: row["share"])
    line = next(line for line in printed.splitlines() if line.startswith("verb → subject"))
    assert line.split()[3:6] == [str(best["n"]), f"{best['layer']}.{best['head']}",
                                 f"{best['share']:.0f}"]  # fmt: skip
    assert 1 <= len(muted) <= 5
    assert all(row["nats"] != whole["nats"] for row in muted)
    assert 0 < whole["nats"] < 20
    check_one_line(call(*given), "exists; name another file")
