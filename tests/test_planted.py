"""Planted: what bugs that lived showed, small effects at which no other file looks."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import sacrebleu
import torch
from conftest import Tiny
from test_windows import write
from toy_task import scored_rows

from seqmodels import EOS, search
from seqmodels.data import batches
from seqmodels.data.batches import ContextWindows, Example
from seqmodels.data.corpus import Pair, read_text_corpus
from seqmodels.data.prepare import prepare_text
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation import evaluate, intervals, metrics
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.training.trainer import PreparedBatch, Trainer
from tasks.made import pairs


def test_examples_longer_than_a_pool_are_drawn() -> None:
    """Keeps out an error where one example is longer than fifty batches."""
    examples = [Example([4] * 3_000, [EOS])] * 2
    assert sorted(batches.shuffled_batches(examples, 10, 1, 0)) == [[0], [1]]


def test_a_state_is_measured_up_to_the_last_position(fresh: Tiny) -> None:
    """Keeps out a length that is left out although one token could be written after it."""
    assert [n for n, _ in evaluate.measure_cache_bytes(fresh("gpt", n_positions=9))] == [8]


def test_a_gpu_is_asked_now_and_then() -> None:
    """Keeps out a search that waits for a GPU at every token, or that never asks who is done."""
    gpu = torch.device("cuda")
    assert [t for t in range(1, 50) if search.is_check_due(t, gpu)] == [16, 32, 48]
    assert all(search.is_check_due(t, torch.device("cpu")) for t in range(1, 50))


def test_the_windows_of_a_seed_are_pinned(tmp_path: Path) -> None:
    """Keeps out another draw of contexts: stored records could not be made again."""
    ids = write(tmp_path / "ids", [*range(4, 200)])
    windows = ContextWindows(ids, range(40, 136, 8), 8, context=40, seed=1)
    assert windows.contexts.tolist() == PINNED


PINNED = [11, 15, 21, 36, 0, 0, 38, 37, 1, 1, 39, 15]


def test_answers_that_share_a_text_get_no_interval_of_wilsons() -> None:
    """Keeps out an interval that takes groups of answers for single ones."""
    answers = np.random.default_rng(1).integers(2, size=(60, 1)).astype(float)
    columns, groups = np.hstack([answers, np.ones_like(answers)]), [i // 3 for i in range(60)]

    def share(sums: np.ndarray) -> np.ndarray:
        return 100 * sums[..., 0] / sums[..., 1]

    grouped = intervals.compute_interval(columns, share, groups, is_percent=True)
    assert (
        intervals.compute_interval(columns, share, groups, is_percent=True, is_yes_no=True)
        == grouped
    )
    assert (
        intervals.compute_interval(columns, share, None, is_percent=True, is_yes_no=True) != grouped
    )


def test_accuracy_is_a_share_of_places() -> None:
    """Keeps out an accuracy of which EOS, which no search says, is a part."""
    rows = scored_rows()
    n_same, n_places = (sum(row[key] for row in rows) for key in ("n_same", "n_places"))
    assert n_places < sum(row["n_tokens"] for row in rows)
    found = metrics.compute_scores(rows)["accuracy"]["value"]
    assert found == pytest.approx(100 * n_same / n_places)


def test_an_interval_is_bca_by_the_book() -> None:
    """Keeps out an interval that is not corrected for bias or skew (Efron 1987, eqs. 2.3, 6.6)."""
    x = np.random.default_rng(3).exponential(size=40)
    columns = np.stack([x, np.ones(40)], 1)
    found = intervals.compute_interval(columns, lambda sums: sums[..., 0] / sums[..., 1])
    drawn = intervals.resample_sums(columns)[:, 0] / 40
    normal = NormalDist()
    bias = normal.inv_cdf(float((drawn < x.mean()).mean()))
    assert abs(bias) > 0.02
    without = (x.sum() - x) / 39
    off = without.mean() - without
    pull = (off**3).sum() / (6 * (off**2).sum() ** 1.5)
    wide = intervals.student_quantile(39) * math.sqrt(40 / 39)
    for side, end in ((-1, "low"), (1, "high")):
        z = bias + side * wide
        level = normal.cdf(bias + z / (1 - pull * z))
        assert found[end] == pytest.approx(np.quantile(drawn, level), rel=1e-9)


def test_scores_are_those_of_their_signatures() -> None:
    """Keeps out a BLEU in lower case or in other tokens, and a chrF++, under their signatures."""
    pairs = [
        ("Der alte Hund, der schläft.", "der alte Hund, der Schläft!"),
        ("A b-c d e", "A b-c d f"),
    ]
    rows = [row | {"hyp": h, "ref": r} for row, (h, r) in zip(scored_rows(2), pairs, strict=True)]
    hyps, refs = [row["hyp"] for row in rows], [[row["ref"] for row in rows]]
    found = metrics.compute_scores(rows)
    assert found["bleu"]["value"] == pytest.approx(sacrebleu.corpus_bleu(hyps, refs).score)
    assert found["chrf"]["value"] == pytest.approx(sacrebleu.corpus_chrf(hyps, refs).score)
    for changes in ({"lowercase": True}, {"tokenize": "none"}):
        other = sacrebleu.corpus_bleu(hyps, refs, **changes).score
        assert abs(found["bleu"]["value"] - other) > 1


def test_a_record_names_the_method_of_each_interval() -> None:
    """Keeps out Wilson's name under a bootstrap's interval, and the other way round."""
    named = metrics.interval_methods(["exact_match", "bleu", "nats"])
    assert (named["exact_match"], named["bleu"], named["nats"]) == (
        "Wilson",
        *["BCa bootstrap"] * 2,
    )


def test_messages_name_lines_of_the_file(fresh: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a place among the examples for the line in which a person can find one."""
    trainer = Trainer(fresh("gpt"), TrainConfig(tokens=9, lr=0.1))

    def stop(_: Trainer, batch: PreparedBatch) -> None:
        assert sorted(batch.lines) == [2, 70, 80]
        raise InterruptedError

    monkeypatch.setattr(loop, "training_step", stop)
    examples = [Example([4], [EOS], line=line) for line in (70, 0, 80)]
    with pytest.raises(InterruptedError):
        loop.train(trainer, examples, examples)


def test_a_vocabulary_is_made_from_what_is_trained_on(tmp_path: Path) -> None:
    """Keeps out letters that the model is tested on and was never shown, known all the same."""
    (tmp_path / "a.txt").write_text("ab" * 950 + "cd" * 50)
    opened = read_text_corpus([tmp_path / "a.txt"])
    ready = prepare_text(opened, "characters", 300, log=lambda line: None)
    assert ready.tokenizer.vocab_size == 4 + 2
    assert ready.data["n_unknown_test"] == ready.data["n_tokens_test"]


def test_words_are_counted_in_bytes() -> None:
    """Keeps out bits per character under the name of bits per byte."""
    words = Words(["für", "a"])
    assert words.n_bytes(words.encode("für a")) == len("für a".encode()) == 6


@pytest.mark.parametrize("has_source_eos", [True, False])
def test_sentences_end_with_eos(has_source_eos: bool) -> None:
    """Keeps out targets that never end, and sources that end where they are not to."""
    words = Words(["a", "b"])
    (found,) = pairs.examples([Pair("a b", "b a", 7)], words, has_source_eos)
    assert found.src == [4, 5, *([EOS] if has_source_eos else [])]
    assert (found.tgt, found.line) == ([5, 4, EOS], 7)
