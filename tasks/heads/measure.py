"""Measure what the heads of a Transformer look for, and which words change without one.

The grammar says what each word is and on which it depends: `draw_sample` makes sentences with both.
A model that is not a Transformer has no rows. Shares and explained variance are in percent.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seqmodels.data.batches import Example, collate
from seqmodels.data.corpus import Pair
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.evaluation.evaluate import generate_targets
from seqmodels.interface import SequenceModel, watch_attention
from seqmodels.models.transformer import Transformer
from tasks.made import grammar
from tasks.made.lexicon import german_lemmas
from tasks.made.pairs import examples as encode_pairs
from tasks.made.trees import Parse, Tags

Rows = list[dict[str, float | str]]
ATTENTIONS = ("encoder", "decoder", "source")
ARTICLE, WRITTEN = "article → noun", "noun of the article written"
NOUN_OF = {"encoder": ARTICLE, "source": WRITTEN}
"""The pair by which a head of an attention finds the noun of an article."""
CLOSEST = "noun → closest “the”"
"""Of a noun and the last "the" before it, in a sentence with several."""
OTHERS = {ARTICLE: "article → other noun", CLOSEST: "noun → other “the”"}
FAR = 4
"""Words from which all distances are one group."""
LEMMAS = german_lemmas()
CHANGES = ("ending", "choice", "order", "omission", "addition")
"""Kinds of changed words; see `classify_changes`."""


class Sample(NamedTuple):
    """Sentences to measure on."""

    parses: Sequence[Parse]
    examples: Sequence[Example]
    tokenizer: Tokenizer


def draw_sample(
    n: int, lengths: range, corpus: grammar.Splits, tokenizer: Tokenizer, seed: int = 2
) -> Sample:
    """Draw sentences of these lengths in turn, none of which is in the corpus."""
    rng = random.Random(seed)
    seen = {sentence.en for split in corpus for sentence in split}
    parses: list[Parse] = []
    while len(parses) < n:
        drawn = grammar.draw_parse(rng, lengths[len(parses) % len(lengths)])
        if drawn.sentence.en not in seen:
            seen.add(drawn.sentence.en)
            parses.append(drawn)
    pairs = [Pair(p.sentence.en_text, p.sentence.de_text) for p in parses]
    return Sample(parses, encode_pairs(pairs, tokenizer), tokenizer)


# ------------------------------------------------------------------------------- pairs of words

Pairs = list[tuple[str, int, int]]
"""The name of a kind of pair, and the places of a query and a key."""


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


def pair_sentence(attention: str, parse: Parse) -> tuple[Pairs, tuple[str, ...], tuple[str, ...]]:
    """Return the pairs of one sentence, and the kinds of its queries and keys.

    The source ends with EOS; what the decoder reads begins with BOS.
    """
    source, target = (*parse.en.kinds, "end"), ("start", *parse.de.kinds)
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
    if attention == "decoder":
        visible = visible.tril()
    offset = torch.arange(M) - torch.arange(N).unsqueeze(1)
    return Grid(visible, offset, queries, keys, pairs)


# ----------------------------------------------------------------------------------- the weights


class Attention(NamedTuple):
    """One module with several heads."""

    kind: str
    """encoder or decoder, where it attends to its own text; source."""
    layer: int
    """From 1."""
    module: Any


def list_attentions(model: SequenceModel) -> list[Attention]:
    """Return the attentions of a Transformer; of another model, none."""
    if not isinstance(model, Transformer):
        return []
    stacks = {"encoder": model.encoder, "decoder": model.decoder, "source": model.decoder}
    return [
        Attention(kind, i, layer.src_attention if kind == "source" else layer.self_attention)
        for kind, stack in stacks.items()
        for i, layer in enumerate(stack, 1)
    ]


def heads_of(
    model: SequenceModel, kinds: Sequence[str] = ATTENTIONS
) -> list[tuple[Attention, int]]:
    """Return all heads of these attentions, numbered from 1 in each layer."""
    n_heads = range(1, 1 + getattr(model.config, "n_heads", 0))
    return [(a, head) for a in list_attentions(model) if a.kind in kinds for head in n_heads]


def name_head(a: Attention, head: int) -> dict[str, float | str]:
    """Return the columns that name a head."""
    return {"attention": a.kind, "layer": a.layer, "head": head}


@torch.inference_mode()
def collect_weights(model: SequenceModel, sample: Sample) -> dict[str, Float[Tensor, "B H N M"]]:
    """Return the weights of all heads of each attention, layer by layer; none for other models.

    They are computed in double precision, in which even tiny weights have a logarithm.
    """
    if not list_attentions(model):
        return {}
    attentions = list_attentions(double := copy.deepcopy(model).double().eval())
    batch = collate(sample.examples, str(next(model.parameters()).device))
    with watch_attention([a.module for a in attentions]) as calls:
        double(batch.src, batch.src_mask, batch.tgt_in)
    return {
        kind: torch.cat(
            [w.cpu() for a, (w,) in zip(attentions, calls, strict=True) if a.kind == kind], 1
        )
        for kind in ATTENTIONS
    }


def share(weights: Float[Tensor, "B H N M"], pair: Bool[Tensor, "B N M"]) -> Float[Tensor, " H"]:
    """Return the weight (%) on the keys of a kind of pair, averaged over queries that have one."""
    on_pair = (weights * pair.unsqueeze(1)).sum(-1).transpose(0, 1)
    return 100 * on_pair[:, pair.any(-1)].mean(-1)


def predict_weights(
    weights: Float[Tensor, "B H N M"], group: Int[Tensor, "B N M"], visible: Bool[Tensor, "B N M"]
) -> Float[Tensor, "B H N M"]:
    """Return weights in proportion to each group's mean weight; each query's sum to 1."""
    members = F.one_hot(group[visible], int(group.max()) + 1).double()
    means = members.T @ weights.transpose(0, 1)[:, visible].T / members.sum(0).unsqueeze(1)
    predicted = means.nan_to_num()[group].movedim(-1, 1) * visible.unsqueeze(1)
    return predicted / predicted.sum(-1, keepdim=True).clamp_min(1e-30)


def centre(x: Float[Tensor, "*B N M"], visible: Bool[Tensor, "*B N M"]) -> Tensor:
    """Subtract each query's mean over its keys; the others are 0."""
    mean = (x * visible).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True).clamp_min(1)
    return (x - mean) * visible


def explain_scores(weights: Float[Tensor, "B H N M"], grid: Grid) -> dict[str, list[float]]:
    """Return how much variance (%) of each head's scores is explained by groups of pairs.

    Scores are those before the softmax, less their mean over the query's keys: the logarithms of
    the weights are. They are fitted by least squares to an effect for each pair of parts of speech,
    for each offset, and for both.
    """
    visible = grid.visible
    y = centre(weights.clamp_min(1e-300).log(), visible.unsqueeze(1)).transpose(0, 1)
    groups = grid.by_kinds, grid.by_offset
    sizes = [int(group.max()) + 1 for group in groups]
    n_kinds, n = sizes[0], sum(sizes)
    gram, moments = torch.zeros(n, n).double(), torch.zeros(n, len(y)).double()
    for b in range(len(visible)):
        effects = [F.one_hot(group[b], size) for group, size in zip(groups, sizes, strict=True)]
        x = centre(torch.cat(effects, -1).movedim(-1, 0).double(), visible[b]).flatten(1)
        gram += x @ x.T
        moments += x @ y[:, b].flatten(1).T
    found = {}
    for name, own in (
        ("kinds", slice(0, n_kinds)),
        ("offset", slice(n_kinds, n)),
        ("both", slice(n)),
    ):
        fit = torch.linalg.pinv(gram[own, own], hermitian=True, rtol=1e-9) @ moments[own]
        explained = (fit * moments[own]).sum(0) / y.flatten(1).square().sum(1)
        found[name] = (100 * explained).tolist()
    return found


# ---------------------------------------------------------------------------------- the analyses


def list_shares(w: Float[Tensor, "B H N M"], grid: Grid) -> dict[str, dict[str, Tensor]]:
    """Return `share` for each kind of pair, and the same of predicted weights, by head."""
    each = {
        "share": w,
        "by_offset": predict_weights(w, grid.by_offset, grid.visible),
        "by_part_of_speech": predict_weights(w, grid.by_key, grid.visible),
    }
    return {
        name: {key: share(weights, pair) for key, weights in each.items()}
        for name, pair in grid.pairs.items()
    }


def describe_heads(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return a row for each kind of pair and each head.

    Columns: the queries that have a key of this kind; the share of their weight (%) on such keys;
    the same share of weights that are predicted by the offset alone, and by the key's part of
    speech alone, in proportion to the head's mean weights.
    """
    rows: Rows = []
    for kind, w in collect_weights(model, sample).items():
        grid = make_grid(kind, sample.parses)
        for name, columns in list_shares(w, grid).items():
            n = int(grid.pairs[name].any(-1).sum())
            for i, (a, head) in enumerate(heads_of(model, [kind])):
                own = {key: round(values[i].item(), 3) for key, values in columns.items()}
                rows.append({**name_head(a, head), "pair": name, "n": n, **own})
    return rows


def describe_scores(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return a row for each head: what of its scores' variance (%) `explain_scores` explains."""
    rows: Rows = []
    for kind, w in collect_weights(model, sample).items():
        explained = explain_scores(w, make_grid(kind, sample.parses))
        for i, (a, head) in enumerate(heads_of(model, [kind])):
            own = {key: round(values[i], 3) for key, values in explained.items()}
            rows.append({**name_head(a, head), **own})
    return rows


def describe_distances(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return rows by distance, for two encoder heads: the best at "article → noun", at CLOSEST.

    Columns: the share of weight (%) on the key of this pair, and on the others of its kind: other
    nouns, or other occurrences of "the". The last distance is FAR words or more.
    """
    rows: Rows = []
    if not (weights := collect_weights(model, sample)):
        return rows
    grid = make_grid("encoder", sample.parses)
    distance = grid.offset.abs().clamp_max(FAR)
    for name, other in (pair for pair in OTHERS.items() if pair[0] in grid.pairs):
        best = int(share(weights["encoder"], grid.pairs[name]).argmax())
        w, place = weights["encoder"][:, best : best + 1], heads_of(model, ["encoder"])[best]
        for d in range(1, FAR + 1):
            near = grid.pairs[name] & (distance == d)
            has_near = near.any(-1, keepdim=True)
            others = share(w, grid.pairs[other] & has_near | near) - share(w, near)
            own = {"share": round(share(w, near).item(), 3), "others": round(others.item(), 3)}
            n = int(has_near.sum())
            rows.append({**name_head(*place), "pair": name, "distance": d, "n": n, **own})
    return rows


# ------------------------------------------------------------------------------- without one head


@contextmanager
def muted(W_o: nn.Module, head: int, n_heads: int) -> Iterator[None]:
    """Let a head, counted from 1, give zero in the context, as if its columns of W_o were zero.

    W_o merges the heads: it is called with (B, N, H × K).
    """

    def mute(_: Any, args: tuple[Tensor]) -> Tensor:
        is_kept = torch.arange(1, n_heads + 1, device=args[0].device) != head
        return (args[0].unflatten(-1, (n_heads, -1)) * is_kept.unsqueeze(1)).flatten(-2)

    hook = W_o.register_forward_pre_hook(mute)
    try:
        yield
    finally:
        hook.remove()


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
    changes: Counter[str] = Counter()
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
    return changes + Counter(choice=n, omission=len(lost) - n, addition=len(new) - n)


def translate(model: SequenceModel, sample: Sample) -> list[list[str]]:
    """Return the greedy translations, in words."""
    device = str(next(model.parameters()).device)
    return [
        sample.tokenizer.tokens(ids) for ids in generate_targets(model, sample.examples, 1, device)
    ]


def compare_translations(
    sample: Sample, whole: Sequence[list[str]], other: Sequence[list[str]]
) -> dict[str, float | str]:
    """Return how many translations are exact and how many are changed, and the changed words."""
    n_exact = sum(hyp == [*p.sentence.de] for hyp, p in zip(other, sample.parses, strict=True))
    differing = [pair for pair in zip(whole, other, strict=True) if pair[0] != pair[1]]
    changes = sum((classify_changes(*pair) for pair in differing), Counter[str]())
    return {"exact": n_exact, "changed": len(differing), **{key: changes[key] for key in CHANGES}}


def mute_each(model: SequenceModel, _: SequenceModel, sample: Sample) -> Rows:
    """Return a row of `compare_translations` for each muted head; the first is the whole model."""
    heads = heads_of(model)
    if not heads:
        return []
    whole, n = translate(model, sample), {"n": len(sample.parses)}
    nobody = {"attention": "none", "layer": 0, "head": 0}
    rows: Rows = [{**nobody, **n, **compare_translations(sample, whole, whole)}]
    for a, head in heads:
        with muted(a.module.W_o, head, model.config.n_heads):
            found = translate(model, sample)
        rows.append({**name_head(a, head), **n, **compare_translations(sample, whole, found)})
    return rows


def describe_article_heads(model: SequenceModel, untrained: SequenceModel, sample: Sample) -> Rows:
    """Return a row for the head with the largest share of NOUN_OF, in the encoder and the source.

    Columns: its share and the predicted ones (see `describe_heads`), its share before training and
    the largest of any head then; exact translations by the whole model and without the head, and
    the words that change (see `compare_translations`).
    """
    rows: Rows = []
    if not (after := collect_weights(model, sample)):
        return rows
    before, whole = collect_weights(untrained, sample), translate(model, sample)
    n_exact = compare_translations(sample, whole, whole)["exact"]
    for kind, name in NOUN_OF.items():
        grid = make_grid(kind, sample.parses)
        columns = list_shares(after[kind], grid)[name]
        best, start = int(columns["share"].argmax()), share(before[kind], grid.pairs[name])
        a, head = heads_of(model, [kind])[best]
        with muted(a.module.W_o, head, model.config.n_heads):
            found = compare_translations(sample, whole, translate(model, sample))
        shares = {key: values[best] for key, values in columns.items()}
        shares |= {"before": start[best], "largest_before": start.max()}
        own = {key: round(value.item(), 3) for key, value in shares.items()}
        n = {"n": len(whole), "whole": n_exact}
        rows.append({**name_head(a, head), "pair": name, **own, **n, **found})
    return rows


def map_article_heads(model: SequenceModel, untrained: SequenceModel, sample: Sample) -> Rows:
    """Return the weights (%) of these heads in one sentence, before and after training.

    A row is one query: its word (in the source, the target word that is written), the source words
    with EOS, the weights on them, and the place of the article's noun, or -1.
    """
    rows: Rows = []
    if not (after := collect_weights(model, sample)):
        return rows
    shown = max(
        range(len(sample.parses)),
        key=lambda b: (
            8 <= (p := sample.parses[b]).sentence.n_words <= 12, p.en.kinds.count("article"),
        ),
    )  # fmt: skip
    sentence, before = sample.parses[shown].sentence, collect_weights(untrained, sample)
    keys = [*sentence.en, "<eos>"]
    for kind, name in NOUN_OF.items():
        pair = make_grid(kind, sample.parses).pairs[name]
        best = int(share(after[kind], pair).argmax())
        queries = keys if kind == "encoder" else [*sentence.de, "<eos>"]
        for when, weights in (("before", before), ("after", after)):
            for i, query in enumerate(queries):
                own = weights[kind][shown, best, i, : len(keys)].tolist()
                text = " ".join(f"{100 * w:.0f}" for w in own)
                nouns = pair[shown, i].nonzero().flatten().tolist()
                words = {"query": query, "keys": " ".join(keys), "weights": text}
                place = name_head(*heads_of(model, [kind])[best])
                rows.append({"when": when, **place, **words, "noun": nouns[0] if nouns else -1})
    return rows
