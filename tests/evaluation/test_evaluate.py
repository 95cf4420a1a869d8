"""Evaluation: rows, the source's use, sizes of caches."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from conftest import GROWING, Tiny, V, n_positions
from sacrebleu.metrics import BLEU
from torch import Tensor
from torch.nn import functional as F
from toys import draw_examples, toy

from seqmodels import BOS, EOS, SequenceModel, search
from seqmodels.data.batches import Example, collate
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation import evaluate
from seqmodels.experiments import run, task
from seqmodels.experiments.run import score_test_set


@torch.no_grad()
def test_teacher_forced_is_a_sum_over_tokens(name: str, tiny: Tiny) -> None:
    model, examples = tiny(name), draw_examples(12, 12)
    for row, example in zip(evaluate.score_teacher_forced(model, examples), examples, strict=True):
        src = torch.tensor([list(example.src)])
        state = model.encode(src, torch.ones_like(src).bool())
        nats, n_right = 0.0, 0
        for before, token in itertools.pairwise([BOS, *example.tgt]):
            logits, state = model.step(torch.tensor([before]), state)
            nats -= logits.log_softmax(-1)[0, token].item()
            n_right += logits.argmax().item() == token
        assert row["nats"] == pytest.approx(nats)
        assert (row["n_tokens"], row["n_correct"]) == (len(example.tgt), n_right)


def test_texts_are_written_and_scored_without_dropout(name: str, fresh: Tiny) -> None:
    model, examples = fresh(name, dropout=0.5), draw_examples(6, 9)
    for ask in (partial(evaluate.generate_targets, width=1), evaluate.score_teacher_forced):
        expected = ask(model.eval(), examples)
        assert ask(model.train(), examples) == expected
        assert not model.training


def test_a_target_does_not_depend_on_its_batch(name: str, tiny: Tiny) -> None:
    model = tiny(name, **n_positions(name, 20))
    rng = random.Random(3)
    sources = [[rng.randrange(4, V) for _ in range(1 + rng.randrange(7))] for _ in range(5)]
    examples = [Example(src, [EOS]) for src in sources]
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.15)  # EOS is unlikely: targets come to their limits
    for width in (1, 4):
        targets = evaluate.generate_targets(model, examples, width)
        for example, target in zip(examples, targets, strict=True):
            src, src_mask, *_ = collate([example])
            max_len = min(2 * len(example.src) + 10, model.max_target(len(example.src)))
            assert search.beam(model, src, src_mask, max_len, width) == [target]


def test_a_text_of_another_length_loses_places() -> None:
    for hyp, *row in (([4, 5, 6], 3, 3, True), ([4, 5, 6, 7], 3, 4, False), ([4], 1, 3, False)):
        found = evaluate.compare_tokens(hyp, [4, 5, 6, EOS])
        assert [found[key] for key in ("n_same", "n_places", "exact_match")] == row


def test_the_state_grows_as_the_papers_say(name: str, fresh: Tiny) -> None:
    sizes = evaluate.measure_cache_bytes(fresh(name, **n_positions(name, 300)))
    S, n_bytes = map(np.array, zip(*sizes, strict=True))
    assert S.tolist() == [8, 16, 32, 64, 128, 256]
    slopes = np.diff(n_bytes) / np.diff(S)
    assert np.ptp(slopes) == 0.0
    assert (slopes > 0).all() if name in GROWING else (slopes == 0).all()


def test_the_cache_is_measured_in_bytes_up_to_the_last_position(fresh: Tiny) -> None:
    assert evaluate.measure_cache_bytes(fresh("rnn_encdec"))[0] == (8, 2 * 16 * 4)
    keys_and_values, mask = 3 * 2 * 16 * 4, 1  # of a token: the mask has a byte
    sizes = evaluate.measure_cache_bytes(fresh("transformer", n_layers=3))
    assert sizes[0] == (8, 8 * (keys_and_values + mask))
    for limit, lengths in ((32, [8, 16]), (9, [8])):
        sizes = evaluate.measure_cache_bytes(fresh("gpt", n_positions=limit))
        assert [n for n, _ in sizes] == lengths


WORDS = Words([f"w{i}" for i in range(36)])
N_WORDS = WORDS.vocab_size


class Copier(SequenceModel):
    """A model that predicts the source's token at the same position."""

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return F.one_hot(src, N_WORDS)[:, : tgt_in.shape[1]] * 5.0


def copies(n: int) -> list[Example]:
    rng = random.Random(1)
    texts = [[rng.randrange(4, N_WORDS) for _ in range(6 + i % 3)] for i in range(n)]
    return [Example([*text, EOS], [*text, EOS]) for text in texts]


def make_set(asked: Sequence[Example], **fields: Any) -> task.TestSet:
    about = {"examples": asked, "x": [1] * len(asked), "buckets": [(1, 1)], "is_generated": False}
    return replace(toy().tests[0], **about | {"primary_metric": "nats"} | fields)


def test_the_settings_of_a_test_set_reach_its_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, model = copies(40), Copier(None)
    some = make_set(asked, groups=[i // 5 for i in range(40)], grouped_by="fives")
    _, entry = score_test_set(model, toy(tokenizer=WORDS), some)
    assert entry["overall"]["nats"]["low"] is None  # of eight groups
    assert entry["grouped_by"] == "fives"
    by_length = {"x": [1, 2] * 20, "buckets": [(1, 1), (2, 2)]}
    some = make_set(asked, baseline=[0.25, 0.5] * 20, baseline_name="guesses", **by_length)
    _, entry = score_test_set(model, toy(tokenizer=WORDS), some)
    assert [bucket["baseline"]["value"] for bucket in entry["buckets"]] == [25.0, 50.0]
    assert entry["baseline"] == "guesses"
    by_characters = toy(tokenizer=WORDS, bleu_tokenize="char")
    monkeypatch.setattr(run, "generate_targets", lambda *_: [e.tgt[:5] for e in asked])
    written = make_set(asked, primary_metric="bleu", is_generated=True)
    rows, entry = score_test_set(model, by_characters, written)
    hyps, refs = ([row[side] for row in rows] for side in ("hyp", "ref"))
    theirs = BLEU(tokenize="char").corpus_score(hyps, [refs])
    for part in (entry["overall"], entry["buckets"][0]):
        assert part["bleu"]["value"] == pytest.approx(theirs.score)
