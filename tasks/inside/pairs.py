"""Name the pairs of a query and a key: an article and its noun, a word and the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ..synthetic.trees import Parse, Tags

NOUN_OF = {
    "encoder": "article → noun", "source": "noun of the article written",
    "text": "noun of the article written",
}  # fmt: skip
"""The pair by which a head of an attention finds the noun of an article."""

CLOSEST, FAR = "noun → closest “the”", 4
"""A noun and the last "the" before it, in a sentence with several; the distance of all further."""

Pairs = list[tuple[str, int, int]]
"""The name of a kind of pair, and the places of a query and a key."""
PairedSentence = tuple[Pairs, tuple[str, ...], tuple[str, ...]]
"""The pairs of a sentence, and the kinds of its queries and keys."""


def pair_words(words: Sequence[str], tags: Tags) -> Pairs:
    """Return the pairs of words in one text."""
    pairs: Pairs = []
    thes = [i for i, word in enumerate(words) if word.lower() == "the"]
    for i, (kind, role, head) in enumerate(zip(*tags, strict=True)):
        if head >= 0:
            pairs.append(("noun → verb" if role else f"{kind} → noun", i, head))
        if kind == "article":
            pairs.append(("noun → article", head, i))
        if role == "subject":
            pairs.append(("verb → subject", head, i))
        if kind == "noun" and len(thes) > 1 and (before := [j for j in thes if j < i]):
            distance = min(i - before[-1], FAR)
            pairs += [(name, i, before[-1]) for name in (CLOSEST, f"{CLOSEST}, {distance} before")]
    return pairs


def pair_translations(parse: Parse) -> Pairs:
    """Return pairs of a query and a source word; query t writes word t."""
    pairs: Pairs = []
    for s, t in parse.sentence.links:
        pairs.append(("translation of the word written", t, s))
        if parse.en.kinds[s] == "article":
            pairs.append((NOUN_OF["source"], t, parse.en.heads[s]))
    return pairs


def pair_sentence(attention: str, parse: Parse) -> PairedSentence:
    """Return the pairs of one sentence, and the kinds of its queries and keys.

    The source ends with EOS; what the decoder reads begins with BOS. GPT's text is both; its pairs
    of words are those of the source, and of the target with the source.
    """
    source, target = (*parse.en.kinds, "end"), ("start", *parse.de.kinds)
    queries, keys = {
        "encoder": (source, source), "decoder": (target, target), "source": (target, source),
        "text": (source + target, source + target),
    }[attention]  # fmt: skip
    pairs: Pairs = []
    if attention in ("encoder", "text"):
        pairs += pair_words(parse.sentence.en, parse.en)
    if attention == "decoder":
        pairs += [(k, i + 1, j + 1) for k, i, j in pair_words(parse.sentence.de, parse.de)]
    if attention in ("source", "text"):
        first = len(source) if attention == "text" else 0
        pairs += [(k, first + t, s) for k, t, s in pair_translations(parse)]
    if attention != "source":
        pairs += [("previous", i, i - 1) for i in range(1, len(queries))]
        pairs += [("next", i - 1, i) for i in range(1, len(queries))]
    if attention in ("decoder", "text"):
        pairs = [pair for pair in pairs if pair[2] <= pair[1]]
    return pairs, queries, keys


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
    offset = torch.arange(M) - torch.arange(N).unsqueeze(1)
    return Grid(visible.tril() if is_causal else visible, offset, queries, keys, pairs)
