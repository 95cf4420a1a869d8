"""Name the pairs of a query and a key: an article and its noun, a word and the previous one.

The grammar says what each word is and on which it depends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..synthetic.trees import Parse, Tags

ARTICLE, WRITTEN = "article → noun", "noun of the article written"
NOUN_OF = {"encoder": ARTICLE, "source": WRITTEN, "text": WRITTEN}
"""The pair by which a head of an attention finds the noun of an article."""
CLOSEST = "noun → closest “the”"
"""Of a noun and the last "the" before it, in a sentence with several."""
OTHERS = {ARTICLE: "article → other noun", CLOSEST: "noun → other “the”"}

Pairs = list[tuple[str, int, int]]
"""The name of a kind of pair, and the places of a query and a key."""
PairedSentence = tuple[Pairs, tuple[str, ...], tuple[str, ...]]
"""The pairs of a sentence, and the kinds of its queries and keys."""


def pair_words(words: Sequence[str], tags: Tags) -> Pairs:
    """Return the pairs of words in one text."""
    pairs = []
    forms = [word.lower() for word in words]
    thes = [i for i, form in enumerate(forms) if form == "the"]
    for i, (kind, role, head) in enumerate(zip(*tags, strict=True)):
        if head >= 0:
            pairs.append(("noun → verb" if role else f"{kind} → noun", i, head))
        if kind == "article":
            pairs.append(("noun → article", head, i))
            others = [j for j, other in enumerate(tags.kinds) if other == "noun" and j != head]
            pairs += [(OTHERS[ARTICLE], i, j) for j in others]
        if role == "subject":
            pairs.append(("verb → subject", head, i))
        if kind == "noun" and len(thes) > 1 and (before := [j for j in thes if j < i]):
            pairs += [(CLOSEST if j == before[-1] else OTHERS[CLOSEST], i, j) for j in thes]
        pairs += [
            ("same word", i, j) for j, form in enumerate(forms) if form == forms[i] and i != j
        ]
    return pairs


def pair_places(n: int) -> Pairs:
    """Return the pairs of neighbours in a text of n tokens."""
    offsets = {"previous": -1, "own": 0, "next": 1}
    return [(k, i, i + d) for k, d in offsets.items() for i in range(n) if 0 <= i + d < n]


def pair_translations(parse: Parse) -> Pairs:
    """Return pairs of a query and a source word; query t writes word t and has read word t - 1."""
    pairs = []
    for s, t in parse.sentence.links:
        pairs += [
            ("translation of the word written", t, s),
            ("translation of the word read", t + 1, s),
        ]
        if parse.en.kinds[s] == "article":
            pairs.append((WRITTEN, t, parse.en.heads[s]))
    return pairs


def pair_sentence(attention: str, parse: Parse) -> PairedSentence:
    """Return the pairs of one sentence, and the kinds of its queries and keys.

    The source ends with EOS; what the decoder reads begins with BOS. GPT's text is both; its pairs
    of words are those of the source, and of the target with the source.
    """
    source, target = (*parse.en.kinds, "end"), ("start", *parse.de.kinds)
    if attention == "text":
        n = len(source)
        pairs = pair_words(parse.sentence.en, parse.en) + pair_places(n + len(target))
        pairs += [(k, n + t, s) for k, t, s in pair_translations(parse)]
        return look_back(pairs, n + len(target)), source + target, source + target
    queries, keys = source if attention == "encoder" else target, source
    name, edge = "end of sentence", len(source) - 1
    if attention == "encoder":
        pairs = pair_words(parse.sentence.en, parse.en) + pair_places(len(source))
    elif attention == "decoder":
        keys, name, edge = target, "start of sentence", 0
        pairs = [(k, i + 1, j + 1) for k, i, j in pair_words(parse.sentence.de, parse.de)]
        pairs = [pair for pair in pairs + pair_places(len(target)) if pair[2] <= pair[1]]
        pairs = [pair for pair in pairs if pair[0] not in OTHERS.values()]
    else:
        pairs = pair_translations(parse)
    return pairs + [(name, i, edge) for i in range(len(queries))], queries, keys


def look_back(pairs: Pairs, n: int) -> Pairs:
    """Return the pairs whose key is not after the query, and those with the first of n tokens."""
    return [p for p in pairs if p[2] <= p[1]] + [("start of sentence", i, 0) for i in range(n)]


class Grid(NamedTuple):
    """All pairs of a query and a key in sentences padded to one size."""

    visible: Bool[Tensor, "B N M"]
    """Whether the key can be attended to."""
    offset: Int[Tensor, "N M"]
    query_kind: Int[Tensor, "B N"]
    key_kind: Int[Tensor, "B M"]
    pairs: dict[str, Bool[Tensor, "B N M"]]

    @property
    def by_offset(self) -> Int[Tensor, "B N M"]:
        """Return a number for each offset of a key from its query, from 0."""
        return (self.offset - self.offset.min()).expand_as(self.visible)

    @property
    def by_key(self) -> Int[Tensor, "B N M"]:
        """Return a number for each part of speech of a key."""
        return self.key_kind.unsqueeze(1).expand_as(self.visible)

    @property
    def by_kinds(self) -> Int[Tensor, "B N M"]:
        """Return a number for each pair of parts of speech."""
        return self.by_key + (1 + self.key_kind.max()) * self.query_kind.unsqueeze(2)


def make_grid(attention: str, parses: Sequence[Parse]) -> Grid:
    """Return the pairs of sentences in one attention."""
    rows = [pair_sentence(attention, parse) for parse in parses]
    return lay_out(rows, is_causal=attention in ("decoder", "text"))


def lay_out(rows: Sequence[PairedSentence], is_causal: bool) -> Grid:
    """Return the pairs of these sentences in one grid."""
    numbers = {kind: i for i, kind in enumerate(sorted({k for r in rows for k in (*r[1], *r[2])}))}
    N, M = (max(len(row[side]) for row in rows) for side in (1, 2))
    visible = torch.zeros(len(rows), N, M, dtype=torch.bool)
    queries, keys = torch.zeros(len(rows), N, dtype=torch.long), torch.zeros(len(rows), M).long()
    names = dict.fromkeys(name for pairs, _, _ in rows for name, _, _ in pairs)
    pairs = {name: torch.zeros_like(visible) for name in names}
    for b, (own, query_kinds, key_kinds) in enumerate(rows):
        visible[b, : len(query_kinds), : len(key_kinds)] = True
        queries[b, : len(query_kinds)] = torch.tensor([numbers[k] for k in query_kinds])
        keys[b, : len(key_kinds)] = torch.tensor([numbers[k] for k in key_kinds])
        for name, i, j in own:
            pairs[name][b, i, j] = True
    if is_causal:
        visible = visible.tril()
    offset = torch.arange(M) - torch.arange(N).unsqueeze(1)
    return Grid(visible, offset, queries, keys, pairs)
