"""Say which words change from one German sentence to another, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from .lexicon import BE, DER, DETERMINERS, OPERATORS, PRONOUNS, RELATIVE, VERBS
from .words import KINDS, invert

FORMS = [pair for words in KINDS.values() for pair in words.items()]
FORMS += [("der", {*row}) for row in (*DER, *RELATIVE)]
FORMS += [
    (stem, {stem + ending for row in endings for ending in row})
    for stem, endings, _ in DETERMINERS.values()
    if stem
]
FORMS += [(verb.de[0], {*verb.de}) for verb in (BE, *OPERATORS.values())]
FORMS += [(pronoun.de[0], {*pronoun.de}) for pronoun in PRONOUNS]
FORMS += [(f"{verb.prefix}|", {verb.prefix}) for verb in VERBS if verb.prefix]
LEMMAS = invert(FORMS)
"""The lemmas to which each German form of the lexicon can belong.

A separated prefix has a lemma of its own: the form "ein" is an article or that of "einladen".
"""
CHANGES = ("ending", "choice", "order", "omission", "addition")
"""Kinds of changed words; see `classify_changes`."""


@cache
def lemmas_of(word: str) -> frozenset[str]:
    """Return the lemmas that a German word can belong to; a word that never changes is its own."""
    return frozenset(LEMMAS.get(word) or LEMMAS.get(word[:1].lower() + word[1:]) or {word.lower()})


FORM, WORD, GAP = 5, 10, 6
"""Costs of another form of a lemma, of another lemma, and of a word without a counterpart."""


def align_words(one: Sequence[str], two: Sequence[str]) -> list[tuple[int | None, int | None]]:
    """Align two sentences at the least cost; None: a word without a counterpart."""
    costs = [[GAP * (i + j) for j in range(len(two) + 1)] for i in range(len(one) + 1)]

    def replace(i: int, j: int) -> int:
        if one[i - 1].lower() == two[j - 1].lower():
            return costs[i - 1][j - 1]
        is_form = lemmas_of(one[i - 1]) & lemmas_of(two[j - 1])
        return costs[i - 1][j - 1] + (FORM if is_form else WORD)

    for i in range(1, len(one) + 1):
        for j in range(1, len(two) + 1):
            costs[i][j] = min(replace(i, j), costs[i - 1][j] + GAP, costs[i][j - 1] + GAP)
    i, j, steps = len(one), len(two), list[tuple[int | None, int | None]]()
    while i or j:
        if i and j and costs[i][j] == replace(i, j):
            i, j = i - 1, j - 1
            steps.append((i, j))
        elif i and costs[i][j] == costs[i - 1][j] + GAP:
            i -= 1
            steps.append((i, None))
        else:
            j -= 1
            steps.append((None, j))
    return steps[::-1]


def classify_changes(one: Sequence[str], two: Sequence[str]) -> Counter[str]:
    """Count the words that change from one German sentence to another, by kind of change.

    ending: another form of the lemma in its place; order: the lemma in another place; choice:
    another word instead of it; omission and addition: the rest.
    """
    steps = align_words(one, two)
    changes = Counter(dict.fromkeys(CHANGES, 0))
    lost: list[str] = []
    new: list[str] = []
    for i, j in steps:
        if i is not None and j is not None and lemmas_of(one[i]) & lemmas_of(two[j]):
            changes["ending"] += one[i].lower() != two[j].lower()
            continue
        lost += [one[i]] if i is not None else []
        new += [two[j]] if j is not None else []
    for word in [*lost]:
        moved = next((other for other in new if lemmas_of(word) & lemmas_of(other)), None)
        if moved is not None:
            changes["order"] += 1
            lost.remove(word)
            new.remove(moved)
    n = min(len(lost), len(new))
    changes.update(choice=n, omission=len(lost) - n, addition=len(new) - n)
    return changes
