"""Content words: the base forms of English and German tokens, from the lexicon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain

from .lexicon import ADJECTIVES, NAMES, NOUNS, VERBS

NOUN_FORMS = {noun.en[0]: {*chain(*noun.de)} for noun in (*NOUNS, *NAMES)}
VERB_FORMS = {
    verb.en[0]: {*verb.de, *(verb.prefix + form for form in verb.de[:5])} for verb in VERBS
}
ADJECTIVE_FORMS = {
    a.en: {a.de, *(a.stem + ending for ending in ("e", "en", "er", "es", "em"))}
    for pool in ADJECTIVES.values()
    for a in pool
}
KINDS = {"noun": NOUN_FORMS, "verb": VERB_FORMS, "adjective": ADJECTIVE_FORMS}
"""The German forms of each content word, by its kind and its English base form."""
ENGLISH = {
    **{form: noun.en[0] for noun in (*NOUNS, *NAMES) for form in noun.en},
    **{form: verb.en[0] for verb in VERBS for form in verb.en if form},
    **{adjective: adjective for adjective in ADJECTIVE_FORMS},
}
"""The base form of each English form of a content word."""


def invert(forms_of: Iterable[tuple[str, set[str]]]) -> dict[str, set[str]]:
    """Return the words that each form can be of."""
    words: dict[str, set[str]] = defaultdict(set)
    for word, forms in forms_of:
        for form in forms:
            words[form].add(word)
    return dict(words)


GERMAN = invert(pair for words in KINDS.values() for pair in words.items())
"""The content words that a German form can be of."""


def english_words(tokens: Sequence[str]) -> list[tuple[int, str]]:
    """Return the place and the base form of each content word of an English text."""
    words = (
        (i, ENGLISH.get(token) or ENGLISH.get(token.lower())) for i, token in enumerate(tokens)
    )
    return [(i, word) for i, word in words if word]


def german_words(token: str) -> set[str]:
    """Return the content words of which a German token can be a form."""
    return GERMAN.get(token) or GERMAN.get(token.lower()) or set()
