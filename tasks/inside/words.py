"""Measure what the vector of a word holds, layer by layer, and what each layer adds to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from scipy.stats import rankdata
from torch import Tensor

from seqmodels.experiments.task import Rows

from ..synthetic.lexicon import NOUNS
from ..synthetic.trees import Sentence
from ..synthetic.words import ENGLISH, KINDS, english_words
from .reader import Reader, collect_states, fit_ridge, mix_features

WORDS = [(kind, word) for kind, forms in KINDS.items() for word in forms]
"""All content words, by kind."""
NUMBER = {word: i for i, (_, word) in enumerate(WORDS)}
GENDERS, CASES = ("masculine", "feminine", "neuter"), ("nominative", "accusative", "dative")
MEANINGS = {"h": "human", "a": "animal", "t": "thing", "p": "place"}


# ------------------------------------------------------------------------------------ Neighbours


def cosines(x: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
    """Return the cosines of all pairs of rows, less the mean row."""
    x = F.normalize(x.double() - x.double().mean(0), dim=1)
    return x @ x.T


def compare_nearest(x: Float[Tensor, "N D"], labels: Sequence[Any]) -> dict[str, float]:
    """Return how often (%) the nearest row has the same label, and by chance: shuffled labels."""
    numbers = torch.tensor([sorted({*labels}).index(label) for label in labels])
    nearest = cosines(x).fill_diagonal_(-torch.inf).argmax(1)
    same = (numbers == numbers[nearest]).double().mean().item()
    counts = torch.bincount(numbers).double()
    chance = (counts * (counts - 1)).sum().item() / (len(x) * (len(x) - 1))
    return {"n": len(x), "same": 100 * same, "chance": 100 * chance}


def embed_words(reader: Reader, words: Sequence[str]) -> Float[Tensor, "N E"]:
    """Return the embeddings of words."""
    model = reader.model
    table = model.embedding if hasattr(model, "embedding") else model.embed
    ids = [reader.sample.tokenizer.encode(word)[0] for word in words]
    return table.weight.detach()[ids].cpu()


def describe_neighbours(reader: Reader) -> Rows:
    """Return how often a word's nearest word is of its kind, by their embeddings (layer 0).

    Gender and meaning: of nouns in the singular; part of speech: of all content words.
    """
    names, (kinds, words) = [noun.en[0] for noun in NOUNS], zip(*WORDS, strict=True)
    labelled = {
        "gender": (names, [GENDERS[noun.gender] for noun in NOUNS]),
        "meaning": (names, [MEANINGS[noun.kind] for noun in NOUNS]),
        "part of speech": (words, kinds),
    }
    return [
        {"layer": 0, "label": label, **compare_nearest(embed_words(reader, own), each)}
        for label, (own, each) in labelled.items()
    ]


def compare_nouns(reader: Reader) -> Rows:
    """Return the cosines of the embeddings of "girl" and others, less the mean of all nouns."""
    names = [noun.en[0] for noun in NOUNS]
    cos = cosines(embed_words(reader, names))[names.index("girl")]
    return [
        {"word": "girl", "other": other, "cosine": cos[names.index(other)].item()}
        for other in ("boy", "car", "horse")
    ]


# ---------------------------------------------------------------------------------------- Probes

PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "gender": lambda w: None if not w.forms or w.forms.is_plural else GENDERS[w.forms.gender],
    "case": lambda w: CASES[w.forms.case] if w.forms else None,
    "number": lambda w: w.forms.is_plural if w.forms else None,
    "role": lambda w: w.role,
}


def score_classes(x: Tensor, labels: Sequence[Any], is_fit: Bool[Tensor, " N"]) -> float:
    """Return the mean over the classes of a linear probe's accuracy on the rows left out."""
    names = sorted({*labels})
    numbers = torch.tensor([names.index(label) for label in labels])
    target = F.one_hot(numbers, len(names)).double()
    weight = target.sum(0).clamp_min(1).rsqrt()[numbers].unsqueeze(1)  # classes weigh the same
    weight = weight / weight[is_fit].square().mean().sqrt()
    fitted = fit_ridge((x * weight)[is_fit], ((2 * target - 1) * weight)[is_fit])
    hits = ((x @ fitted).argmax(1) == numbers).double()[~is_fit]
    classes = numbers[~is_fit]
    means = [hits[classes == c].mean().item() for c in classes.unique()]
    return 100 * sum(means) / len(means)


def probe(reader: Reader, labels: Mapping[str, Mapping[int, Any]]) -> Rows:
    """Return what linear probes read of words, layer by layer: by property, labels by word.

    Two thirds of the sentences are fitted. `control`: the same with the labels of another word.
    """
    n_fit, rows = 2 * len(reader.sample.parses) // 3, Rows()
    for layer, x in enumerate(reader.layers):
        for name, of_word in labels.items():
            features, own = mix_features(x[[*of_word]]), [*of_word.values()]
            is_fit = torch.tensor([reader.words[i].sentence < n_fit for i in of_word])
            third = len(own) // 3
            scores = {
                key: score_classes(features, each, is_fit)
                for key, each in (("score", own), ("control", own[third:] + own[:third]))
            }
            rows.append({
                "layer": layer, "property": name, "n": int((~is_fit).sum()),
                **scores, "chance": 100 / len({*own}),
            })  # fmt: skip
    return rows


def probe_articles(reader: Reader) -> Rows:
    """Return what linear probes read of its noun from the vector of "the", layer by layer.

    The word is always the same, so all that they read of its noun has come from other words.
    """
    places = [i for i, word in enumerate(reader.words) if word.text == "the"]
    return probe(reader, {
        name: {i: label for i in places if (label := value(reader.words[i])) is not None}
        for name, value in PROPERTIES.items()
    })  # fmt: skip


def probe_nouns(reader: Reader) -> Rows:
    """Return what linear probes read of nouns: article (the, a), verb, and place in fours."""
    labels, start = defaultdict[str, dict[int, Any]](dict), 0
    for p in reader.sample.parses:
        texts, (kinds, roles, heads) = p.sentence.en, p.en
        for i, (kind, role, head) in enumerate(zip(kinds, roles, heads, strict=True)):
            if kind == "article" and (forms := p.forms[head]) and not forms.is_plural:
                if (article := texts[i].lower().removesuffix("n")) in ("a", "the"):
                    labels["article"][start + head] = article
            elif kind == "noun":
                labels["place"][start + i] = min(i // 4, 4)
                if role and (verb := ENGLISH.get(texts[head])):
                    labels[f"verb of {'an' if role == 'object' else 'a'} {role}"][start + i] = verb
        start += len(texts)
    return probe(reader, labels)


# ------------------------------------------------------------------------------------ Word by word

AGES = {"1": (1, 1), "2": (2, 2), "3–4": (3, 4), "5–8": (5, 8), "9 or more": (9, 999)}
"""Target words since a word was generated."""


class Labels(NamedTuple):
    """Of each state and content word: whether the word is to come, and when it was generated."""

    to_come: Bool[Tensor, "N W"]
    age: Float[Tensor, "N W"]
    """Target words read since its last one, itself included; 0: not generated."""
    is_end: Bool[Tensor, "N 1"]
    """Whether EOS comes next."""


def label_states(sentences: Sequence[Sentence], lengths: Sequence[int]) -> Labels:
    """Label the states after 0, 1, 2, … target words; `lengths` are those of the targets."""
    parts = []
    for sentence, n in zip(sentences, lengths, strict=True):
        t, last = torch.arange(n + 1), dict(sorted(sentence.links))
        to_come, age = torch.zeros(n + 1, len(WORDS)).bool(), torch.zeros(n + 1, len(WORDS))
        for end, word in sorted((last[i], word) for i, word in english_words(sentence.en)):
            to_come[:, NUMBER[word]] |= t <= end
            age[end + 1 :, NUMBER[word]] = t[end + 1 :] - end
        parts.append((to_come, age, (t == n).unsqueeze(1)))
    return Labels(*(torch.cat(each) for each in zip(*parts, strict=True)))


def compute_auc(x: Float[Tensor, " N"], member: Bool[Tensor, " N"]) -> float:
    """Return how often (%) a member's value is above one of the others; a tie is half."""
    n, ranks = int(member.sum()), torch.from_numpy(rankdata(x))
    return 100 * (ranks[member].mean().item() - (n + 1) / 2) / (len(x) - n)


def mean_auc(
    scores: Float[Tensor, "N W"], inside: Bool[Tensor, "N W"], outside: Bool[Tensor, "N W"]
) -> tuple[float, int]:
    """Return the mean AUC of the words that have five states in each group, and their number."""
    found = [
        compute_auc(scores[i | o, w], i[i | o])
        for w, (i, o) in enumerate(zip(inside.T, outside.T, strict=True))
        if min(i.sum(), o.sum()) >= 5
    ]
    return (sum(found) / len(found) if found else 50.0), len(found)


def describe_said(reader: Reader) -> Rows:
    """Return what probes of the decoder's state read of words to come, and of words generated.

    Two linear probes a content word, fitted on two thirds of the sentences: is it to come, was it
    generated? `auc`: how often the score is higher in states with it than in those of sentences
    without. `control`: the same, fitted to and tested on the labels of another sentence, nearly as
    long.
    """
    sentences = [p.sentence for p in reader.sample.parses]
    x = mix_features(collect_states(reader.model, reader.sample.examples))
    lengths = [len(s.de) for s in sentences]
    n_fit = sum(n + 1 for n in lengths[: 2 * len(sentences) // 3])
    order = sorted(range(len(sentences)), key=lambda i: lengths[i])
    other = dict(zip(order, [*order[1:], order[0]], strict=True))
    results: dict[str, list[tuple[float, int]]] = {}
    for texts in (sentences, [sentences[other[i]] for i in range(len(sentences))]):
        to_come, age, is_end = label_states(texts, lengths)
        target = torch.cat([to_come, age > 0], 1).double()
        come, was = (x @ fit_ridge(x[:n_fit], target[:n_fit])).chunk(2, 1)
        absent, gone = ~to_come & (age == 0), (age > 0) & ~to_come
        groups = {"to come": (come, to_come, absent)}
        for name, (low, high) in AGES.items():
            groups[name] = was, gone & (age >= low) & (age <= high), absent
        groups["before EOS"] = was, is_end & gone, is_end & absent
        for name, group in groups.items():
            results.setdefault(name, []).append(mean_auc(*(each[n_fit:] for each in group)))
    return [
        {"state": name, "words": own[1], "auc": own[0], "control": control[0]}
        for name, (own, control) in results.items()
    ]


MEASURES: dict[str, Callable[[Reader], Rows]] = {
    "neighbours": describe_neighbours,
    "nearest": compare_nouns,
    "probes": probe_articles,
    "nouns": probe_nouns,
    "said": describe_said,
}
