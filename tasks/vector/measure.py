"""Measure what a model keeps of a text, and what its decoder's state says is left to translate.

`measure_prefixes` and `probe_state` are analyses of a task.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from seqmodels.data.batches import Example
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.evaluation.intervals import compute_interval
from seqmodels.interface import EOS, SequenceModel

from ..analyses import NUMBER, WORDS, Rows, collect_states, fit_ridge, mix_features
from ..synthetic.pairs import encode_sentences
from ..synthetic.trees import Parse, Sentence
from ..synthetic.words import KINDS, english_words, german_words
from .roles import TreeReader, clause_ends, german_roles

BINS = ((1, 5), (6, 10), (11, 15), (16, 20), (21, 30), (31, 40), (41, 50), (51, 60))
"""Ranges of words read; a sentence has at most one prefix of each kind in each."""
N_PREFIXES = 200
"""Most prefixes of a kind in a range."""


def interval_columns(
    name: str, counts: Sequence[Sequence[float]] | np.ndarray, score: Any
) -> dict[str, float]:
    """Return a score (%) of sentences' counts, with its interval unless they are too few.

    Sentences with nothing to count are left out.
    """
    columns = np.array(counts, float)
    interval = compute_interval(columns[columns[:, 1] > 0], score, is_percent=True)
    return {f"{name}_{key}": end for key, end in interval.items() if end is not None}


def percentage(sums: np.ndarray) -> np.ndarray:
    """Return the first sum in per cent of the second."""
    return np.asarray(100 * sums[..., 0] / sums[..., 1])


# ------------------------------------------------------------------------------------- prefixes


class Prefix(NamedTuple):
    """The beginning of a sentence, closed by a full stop."""

    n_words: int
    src: list[int]
    words: Counter[str]
    """Its content words."""
    roles: set[tuple[str, str, str]]


def cut_prefix(parsed: Parse, n_words: int, tokenizer: Tokenizer) -> Prefix:
    """Return the first words of a sentence."""
    en, left = [], n_words
    for token in parsed.sentence.en:
        left -= token not in (",", ".")
        if left < 0:
            break
        en.append(token)
    if en[-1] in (",", "."):
        en.pop()
    words = [word for _, word in english_words(en)]
    roles = TreeReader(parsed.clauses).roles_within(len(words))
    return Prefix(n_words, [*tokenizer.encode(" ".join([*en, "."])), EOS], Counter(words), roles)


def choose_cuts(parsed: Sequence[Parse]) -> dict[str, list[list[tuple[int, int]]]]:
    """Return, for each kind of cut and each bin, pairs of a sentence's index and words to read."""
    rng = random.Random(1)
    ends = [clause_ends(p.clauses) for p in parsed]
    cuts: dict[str, list[list[tuple[int, int]]]] = {"clause ends": [], "anywhere": []}
    for low, high in BINS:
        choices = {
            "clause ends": [[n for n in own if low <= n <= high] for own in ends],
            "anywhere": [[*range(low, min(high, p.sentence.n_words) + 1)] for p in parsed],
        }
        for name, fitting in choices.items():
            chosen = [(i, rng.choice(words)) for i, words in enumerate(fitting) if words]
            cuts[name].append(chosen[:N_PREFIXES])
    return cuts


def count_kept(prefix: Prefix, output: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return how many content words and roles of a prefix an output has, and how many there are."""
    held = Counter(word for token in output for word in german_words(token))
    n_words = sum(min(n, held[word]) for word, n in prefix.words.items())
    n_roles = len(prefix.roles & german_roles(output))
    return {"content words": (n_words, prefix.words.total()), "roles": (n_roles, len(prefix.roles))}


def measure_prefixes(
    model: SequenceModel, _: SequenceModel, parsed: Sequence[Parse], tokenizer: Tokenizer
) -> Rows:
    """Return, by kind of cut and words read, the shares (%) of content words and roles kept.

    The model translates the prefixes greedily. `chance` is the share that the output for the next
    sentence has.
    """
    rows: Rows = []
    for name, bins in choose_cuts(parsed).items():
        prefixes = [[cut_prefix(parsed[i], n, tokenizer) for i, n in cuts] for cuts in bins]
        flat = [Example(p.src, p.src) for own in prefixes for p in own]
        outputs = iter(generate_targets(model, flat, 1))
        for (low, high), own in zip(BINS, prefixes, strict=True):
            texts = [tokenizer.tokens(next(outputs)) for _ in own]
            kept = [*map(count_kept, own, texts)]
            others = [*map(count_kept, own, texts[1:] + texts[:1])]
            for kind in ("content words", "roles"):
                counts = [counted[kind] for counted in kept]
                if sum(n for _, n in counts):
                    chance = percentage(np.sum([counted[kind] for counted in others], 0))
                    rows.append({
                        "cut": name, "kept": kind, "low": low, "high": high, "n": len(own),
                        "words": sum(p.n_words for p in own) / len(own), "chance": float(chance),
                        **interval_columns("share", counts, percentage),
                    })  # fmt: skip
    return rows


# ---------------------------------------------------------------------------------------- probe


class Labels(NamedTuple):
    """Pairs of a decoder's state and a content word of its source."""

    row: np.ndarray
    """Number of the state."""
    sentence: np.ndarray
    place: np.ndarray
    """Target words read."""
    word: np.ndarray
    """Index in WORDS."""
    is_said: np.ndarray
    """Whether the word is translated: the last target word that it is linked to has been read."""
    control: np.ndarray
    """The same of a word of another sentence."""


def last_links(sentence: Sentence) -> list[tuple[int, int]]:
    """Return, for each content word, its index in WORDS and its last linked target word.

    Words that occur more than once are left out: a state that lists one does not say which.
    """
    last, words = dict(sorted(sentence.links)), english_words(sentence.en)
    n_times = Counter(word for _, word in words)
    return [(NUMBER[word], last[i]) for i, word in words if n_times[word] == 1]


def label_states(sentences: Sequence[Sentence]) -> Labels:
    """Label each state of each sentence, after 0, 1, … target words.

    The control of a word is one at random of another sentence, of the same length or the next
    longer one: it tells how far a translation is, but not which words it has.
    """
    rng, links = random.Random(1), [last_links(s) for s in sentences]
    order = sorted((i for i in range(len(links)) if links[i]), key=lambda i: len(sentences[i].de))
    control = dict(zip(order, [*order[1:], order[0]], strict=True))
    starts = np.cumsum([0, *(len(s.de) + 1 for s in sentences)])
    columns = [
        (starts[i] + t, i, t, word, t > last, t > other)
        for i, (sentence, own) in enumerate(zip(sentences, links, strict=True))
        for word, last in own
        for _, other in [rng.choice(links[control[i]])]
        for t in range(len(sentence.de) + 1)
    ]
    return Labels(*(np.array(column) for column in zip(*columns, strict=True)))


def score_probe(
    x: Float[Tensor, "N F"], labels: Labels, n_fit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a probe for each word on the first sentences that have it; score it in the others.

    Return the indices of the labels and their scores, higher for words that the probe takes to be
    translated; 0 is the border.
    """
    target = torch.tensor(labels.is_said).double() * 2 - 1
    entries, scores = [], []
    for word in np.unique(labels.word):
        own = np.flatnonzero(labels.word == word)
        fit, test = own[labels.sentence[own] < n_fit], own[labels.sentence[own] >= n_fit]
        if len(fit) and len(test):
            weights = fit_ridge(x[labels.row[fit]], target[fit, None])
            entries.append(test)
            scores.append((x[labels.row[test]] @ weights).squeeze(1).numpy())
    return np.concatenate(entries), np.concatenate(scores)


def balanced_accuracy(sums: np.ndarray) -> np.ndarray:
    """Return the mean accuracy (%) on words said and on words to come."""
    said, to_come = (100 * sums[..., i] / sums[..., i + 1] for i in (0, 2))
    return np.asarray((said + to_come) / 2)


def sum_by(number: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return the sums of columns over the rows of each number that occurs."""
    _, index = np.unique(number, return_inverse=True)
    return np.stack([np.bincount(index, column) for column in columns], 1)


def rank_pairs(row: np.ndarray, said: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    """Return, for each word that is said, those to come after the same state: lower ones, and all.

    A tie is half a lower one.
    """
    lower, total = np.zeros(len(row)), np.zeros(len(row))
    order = np.argsort(row, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(row[order])) + 1):
        to_come = scores[own[~said[own]]]
        for i in own[said[own]]:
            lower[i] = (to_come < scores[i]).sum() + (to_come == scores[i]).sum() / 2
            total[i] = len(to_come)
    return [lower, total]


def describe_probe(labels: Labels, entries: np.ndarray, scores: np.ndarray) -> Rows:
    """Return a row for all content words and for each kind: accuracy and pairs (%).

    Accuracy is balanced. Pairs: of two words of one state, one translated and one to come, how
    often the first has the higher score; what only tells how far a translation is scores 50 here.
    """
    rows: Rows = []
    kind_of = np.array([kind for kind, _ in WORDS])[labels.word[entries]]
    for kind in ("all", *KINDS):
        own = (kind_of == kind) | (kind == "all")
        score, kept = scores[own], entries[own]
        said, sentence = labels.is_said[kept], labels.sentence[kept]
        hits = [(score > 0) & said, said, (score <= 0) & ~said, ~said]
        pairs = rank_pairs(labels.row[kept], said, score)
        rows.append({
            "kind": kind, "n": len(said),
            **interval_columns("accuracy", sum_by(sentence, hits), balanced_accuracy),
            **interval_columns("pairs", sum_by(sentence, pairs), percentage),
        })  # fmt: skip
    return rows


def probe_state(
    model: SequenceModel, _: SequenceModel, sentences: Sequence[Sentence], tokenizer: Tokenizer
) -> Rows:
    """Return how well probes of the decoder's state tell words that are translated from the others.

    Rows: by kind of word, the probe of the state; its control, fitted to and tested on the labels
    of other sentences; and the same probe of nothing but the number of target words read.
    Two thirds of the sentences are fitted, the others tested.
    """
    pairs = encode_sentences(sentences, tokenizer)
    labels, n_fit = label_states(sentences), 2 * len(sentences) // 3
    x = mix_features(collect_states(model, pairs))
    place = torch.zeros(len(x), dtype=torch.long)
    place[torch.tensor(labels.row)] = torch.tensor(labels.place)
    by_place = torch.nn.functional.one_hot(place).double()
    control = labels._replace(is_said=labels.control)
    probes = {"state": (x, labels), "control": (x, control), "place": (by_place, labels)}
    return [
        {"probe": name, **row}
        for name, (features, own) in probes.items()
        for row in describe_probe(own, *score_probe(features, own, n_fit))
    ]
