"""Measure what the vector of a word holds, layer by layer, and what each layer adds to it.

Every measurement takes a `Reader`, a trained model with sentences of which the grammar knows each
word, and returns rows. A model without the part that is measured has none. Shares, accuracies and
explained variance are in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from scipy.stats import rankdata
from torch import Tensor, nn

from seqmodels.data.batches import Example
from seqmodels.interface import PAD, Batch, SequenceModel
from seqmodels.models.gpt import GPT
from seqmodels.models.linear_attention import LinearAttention
from seqmodels.models.memory import rotate
from seqmodels.models.rnn_encdec import RNNEncDec
from seqmodels.models.transformer import Transformer, sinusoids

from ..analyses import (
    NUMBER,
    WORDS,
    Attention,
    Rows,
    Sample,
    batch_of,
    batches_of,
    collect_states,
    compare_translations,
    fit_ridge,
    list_attentions,
    mix_features,
    name_head,
    translate,
    watch,
)
from ..synthetic.grammar import garden
from ..synthetic.lexicon import ADJECTIVES, NOUNS, VERBS
from ..synthetic.pairs import encode_sentences
from ..synthetic.trees import NP, VP, Clause, Forms, Parse, Sentence, parse
from ..synthetic.words import english_words

N_SHUFFLES = 1_000
"""Permutations of the labels in a test."""
N_TRANSLATED = 100
"""Sentences that are translated without a sublayer, and whose queries and keys are shown."""
N_READ = 400
"""Sentences at whose words neurons are read."""
GENDERS, CASES = ("masculine", "feminine", "neuter"), ("nominative", "accusative", "dative")
MEANINGS = {"h": "human", "a": "animal", "t": "thing", "p": "place"}


# ------------------------------------------------------------------------------- words and layers


class Word(NamedTuple):
    """A word of a source."""

    sentence: int
    place: int
    """Words before it."""
    text: str
    kind: str
    role: str
    """Of an article, that of its noun; subject, object or none."""
    forms: Forms | None
    """Of a noun, and of an article's."""
    distance: int | None
    """Words to the verb of the noun, if it is a subject or an object."""


def list_words(parses: Sequence[Parse]) -> list[Word]:
    """Return the words of all sources, one after the other."""
    words = []
    for n, p in enumerate(parses):
        columns = zip(p.sentence.en, p.en.kinds, p.en.heads, strict=True)
        for i, (text, kind, head) in enumerate(columns):
            noun = head if kind == "article" else i
            role, forms = p.en.roles[noun] or "none", p.forms[noun]
            distance = None if role == "none" else abs(p.en.heads[noun] - i)
            words.append(Word(n, i, text, kind, role, forms, distance))
    return words


def read(model: Any, batch: Batch) -> None:
    """Compute all layers at all words: of source and target for a model that reads both as one."""
    is_one_text = isinstance(model, GPT | LinearAttention)
    (model.text_logits if is_one_text else model)(batch.src, batch.src_mask, batch.tgt_in)


def in_order(model: Any, x: Float[Tensor, "B N _"], batch: Batch) -> Float[Tensor, "B S _"]:
    """Return the rows of the source's words in its order: linear attention reads pads first."""
    x = x[:, : batch.src.shape[1]]
    return rotate(x, -batch.src_mask.sum(1)) if isinstance(model, LinearAttention) else x


def source_layers(model: Any, batch: Batch) -> list[Float[Tensor, "B S _"]]:
    """Return the vectors of the source's words, in the order of reading: embeddings, then layers.

    Embeddings have their positions added where the model does so. A recurrent encoder is one layer.
    """
    if not isinstance(model, Transformer | GPT | LinearAttention):
        encoder = model.encoder.unit if isinstance(model, RNNEncDec) else model.encoder
        with watch([model.embed, encoder]) as (embedded, states):
            model.encode(batch.src, batch.src_mask)
        outputs = [out[0] if isinstance(out, tuple) else out for _, out in states]
        is_stepwise = outputs[0].dim() == 2
        return [embedded[0][1], torch.stack(outputs, 1) if is_stepwise else outputs[0]]
    with watch(model.encoder if isinstance(model, Transformer) else model.decoder) as calls:
        read(model, batch)
    outputs = [out[0] if isinstance(out, tuple) else out for ((_, out),) in calls]
    return [in_order(model, x, batch) for x in (calls[0][0][0][0], *outputs)]


def source_neurons(model: Any, batch: Batch) -> list[Float[Tensor, "B S _"]]:
    """Return the activations of the feed-forward layers that read the source, at its words."""
    stack: Any = model.encoder if isinstance(model, Transformer) else model.decoder
    with watch(layer.ff[1] for layer in stack) as calls:
        read(model, batch)
    return [in_order(model, out, batch) for ((_, out),) in calls]


@torch.inference_mode()
def collect(
    read_words: Callable[[Any, Batch], list[Tensor]], model: Any, examples: Sequence[Example]
) -> list[Float[Tensor, "N _"]]:
    """Return what is read at all words of these sources but EOS, layer by layer."""
    by_sentence: dict[int, list[Tensor]] = {}
    is_reversed = getattr(model.config, "is_reversed", False)
    for run, batch in batches_of(model, examples):
        layers = read_words(model, batch)
        for row, i in enumerate(run):
            own = [x[row, : len(examples[i].src) - 1].cpu() for x in layers]
            by_sentence[i] = [x.flip(0) for x in own] if is_reversed else own
    each = (by_sentence[i] for i in range(len(examples)))
    return [torch.cat(parts) for parts in zip(*each, strict=True)]


@dataclass
class Reader:
    """A trained model, the same at its start, and the sentences that it reads."""

    model: Any
    untrained: Any
    sample: Sample

    @cached_property
    def words(self) -> list[Word]:
        """The words of all sources, one after the other."""
        return list_words(self.sample.parses)

    @cached_property
    def layers(self) -> list[Float[Tensor, "N _"]]:
        """The vectors of all words in each layer; the first are embeddings."""
        return collect(source_layers, self.model, self.sample.examples)

    @cached_property
    def states(self) -> States:
        """The decoder's states after 0, 1, 2, … words of the German of each sentence."""
        sentences = [p.sentence for p in self.sample.parses] + [parse([garden()]).sentence]
        shown = encode_sentences(sentences[-1:], self.sample.tokenizer)
        x = mix_features(collect_states(self.model, [*self.sample.examples, *shown]))
        fitted = sentences[: 2 * len(self.sample.parses) // 3]
        return States(x, sentences, sum(len(s.de) + 1 for s in fitted))

    def take(self, n: int) -> Sample:
        """Return the first n sentences."""
        parses, examples, tokenizer = self.sample
        return Sample(parses[:n], examples[:n], tokenizer)


# ------------------------------------------------------------------------------------- neighbours

SHOWN, OTHERS = ("girl", "dog"), ("boy", "car", "horse")
"""Nouns whose nearest ones are named, and those with which the first is compared."""


def cosines(x: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
    """Return the cosines of all pairs of rows, less the mean row."""
    x = F.normalize(x.double() - x.double().mean(0), dim=1)
    return x @ x.T


def compare_nearest(x: Float[Tensor, "N D"], labels: Sequence[Any]) -> dict[str, float]:
    """Return how often the nearest row has the same label, and how often if labels are shuffled.

    p: the share of permutations of the labels that agree as often, a test of one model's vectors.
    """
    numbers = torch.tensor([sorted({*labels}).index(label) for label in labels])
    nearest = cosines(x).fill_diagonal_(-torch.inf).argmax(1)
    draws = torch.Generator().manual_seed(0)
    orders = [torch.arange(len(x))]
    orders += [torch.randperm(len(x), generator=draws) for _ in range(N_SHUFFLES)]
    shuffled = numbers[torch.stack(orders)]
    own, *others = (100 * (shuffled == shuffled[:, nearest]).double().mean(1)).tolist()
    p = (1 + sum(other >= own for other in others)) / len(orders)
    return {"n": len(x), "same": own, "chance": sum(others) / len(others), "p": p}


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


def list_nearest(reader: Reader) -> Rows:
    """Return the nearest nouns of some, by their embeddings, and the cosines of pairs."""
    names = [noun.en[0] for noun in NOUNS]
    cos = cosines(embed_words(reader, names)).fill_diagonal_(-torch.inf)
    near = {word: cos[names.index(word)] for word in SHOWN}
    rows: Rows = [
        {"word": word, "nearest": " ".join(names[i] for i in own.topk(4).indices)}
        for word, own in near.items()
    ]
    for other in OTHERS:
        cosine = near[SHOWN[0]][names.index(other)].item()
        rows.append({"word": SHOWN[0], "other": other, "cosine": cosine})
    return rows


def compare_senses(reader: Reader) -> Rows:
    """Return whether the nearest "that" is the same part of speech, layer by layer.

    The lexicon's ambiguous word: a conjunction (dass) or a relative pronoun (der, die, das …).
    """
    by_kind = {
        kind: [i for i, w in enumerate(reader.words) if (w.text, w.kind) == ("that", kind)]
        for kind in ("conjunction", "relative pronoun")
    }
    n = min(map(len, by_kind.values()))
    places = [i for own in by_kind.values() for i in own[:n]]
    kinds = [reader.words[i].kind for i in places]
    return [
        {"layer": layer, **compare_nearest(x[places], kinds)}
        for layer, x in enumerate(reader.layers)
    ]


# ----------------------------------------------------------------------------------------- probes

Value = Callable[[Any], Any]
CLASSES: dict[str, Value] = {
    "gender": lambda w: None if not w.forms or w.forms.is_plural else GENDERS[w.forms.gender],
    "case": lambda w: CASES[w.forms.case] if w.forms else None,
    "number": lambda w: w.forms.is_plural if w.forms else None,
    "role": lambda w: w.role,
}
QUANTITIES: dict[str, Value] = {"position": lambda w: w.place, "distance": lambda w: w.distance}


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


def score_quantity(x: Tensor, labels: Sequence[float], is_fit: Bool[Tensor, " N"]) -> float:
    """Return how much of the variance a linear probe explains on the rows left out, not below 0."""
    y = torch.tensor(labels).double()
    y = y - y[is_fit].mean()
    error = y - (x @ fit_ridge(x[is_fit], y[is_fit, None])).squeeze(1)
    explained = 1 - error[~is_fit].square().sum() / y[~is_fit].square().sum()
    return max(0.0, 100 * explained.item())


def probe_layers(reader: Reader) -> Rows:
    """Return what linear probes read from the vector of "the", layer by layer.

    The word is always the same, so all that they read of its noun has come from other words. Two
    thirds of the sentences are fitted. `control`: the same with the labels of another "the".
    """
    words, n_fit = reader.words, 2 * len(reader.sample.parses) // 3
    places = [i for i, word in enumerate(words) if word.text == "the"]
    rows: Rows = []
    for layer, x in enumerate(reader.layers):
        features = mix_features(x[places])
        for name, value in (CLASSES | QUANTITIES).items():
            labels = [value(words[i]) for i in places]
            kept = [j for j, label in enumerate(labels) if label is not None]
            own = [labels[j] for j in kept]
            is_fit = torch.tensor([words[places[j]].sentence < n_fit for j in kept])
            score = score_classes if name in CLASSES else score_quantity
            third = len(own) // 3
            scores = {
                key: score(features[kept], each, is_fit)
                for key, each in (("score", own), ("control", own[third:] + own[:third]))
            }
            chance = 100 / len({*own}) if name in CLASSES else 0.0
            n = int((~is_fit).sum())
            rows.append({"layer": layer, "property": name, "n": n, **scores, "chance": chance})
    return rows


# ----------------------------------------------------------------------------------------- stream


class Sublayer(NamedTuple):
    """A part whose output is added to the stream."""

    stack: str
    layer: int
    name: str
    reader: nn.Module
    """Its first argument is the stream."""
    writer: nn.Module
    """Its output is added."""


def list_sublayers(model: Any) -> list[Sublayer]:
    """Return the sublayers of a Transformer, GPT or linear attention, as they are computed."""
    parts = {"attention": ("norm_1", "self_attention"), "feed-forward": ("norm_2", "ff")}
    stacks = ["decoder"]
    if isinstance(model, Transformer):
        stacks = ["encoder", "decoder"]
        parts = {"attention": ("self_residual", "self_attention")}
        parts |= {
            "source": ("src_residual", "src_attention"),
            "feed-forward": ("ff_residual", "ff"),
        }
    elif not isinstance(model, GPT | LinearAttention):
        return []
    return [
        Sublayer(stack, i, name, getattr(layer, reader), getattr(part, "W_o", part))
        for stack in stacks
        for i, layer in enumerate(getattr(model, stack), 1)
        for name, (reader, writer) in parts.items()
        if (part := getattr(layer, writer, None)) is not None
    ]


@torch.inference_mode()
def measure_added(model: SequenceModel, sample: Sample) -> list[dict[str, float]]:
    """Return what each sublayer adds: its length over the stream's, and its cosine to that.

    Means over the words of source and target, in one teacher-forced pass.
    """
    sublayers, batch = list_sublayers(model), batch_of(model, sample.examples)
    with watch([each for s in sublayers for each in (s.reader, s.writer)]) as calls:
        read(model, batch)
    real = {"encoder": batch.src_mask, "decoder": batch.tgt_in != PAD}
    both = torch.cat([*real.values()], 1)
    rows = []
    for sublayer, reads, writes in zip(sublayers, calls[::2], calls[1::2], strict=True):
        ((arguments, _),), ((_, added),) = reads, writes
        stream = arguments[0]
        is_real = next(m for m in (real[sublayer.stack], both) if m.shape == stream.shape[:2])
        stream, added = stream[is_real], added[is_real]
        ratio = added.norm(dim=1) / stream.norm(dim=1).clamp_min(1e-9)
        cosine = F.cosine_similarity(added, stream)
        rows.append({"ratio": ratio.mean().item(), "cosine": cosine.mean().item()})
    return rows


def describe_stream(reader: Reader) -> Rows:
    """Return what each sublayer adds, after and before training, and what is lost without it.

    Without it: exact translations, and the words that change (see `compare_translations`). The
    first row is the whole model.
    """
    model, some = reader.model, reader.take(N_TRANSLATED)
    if not (sublayers := list_sublayers(model)):
        return []
    whole, n = translate(model, some), len(some.parses)
    nothing: dict[str, float | str] = {"stack": "none", "layer": 0, "sublayer": "none", "n": n}
    rows: Rows = [{**nothing, **compare_translations(some, whole, whole)}]
    before = measure_added(reader.untrained, some)
    for each, added, start in zip(sublayers, measure_added(model, some), before, strict=True):
        with each.writer.register_forward_hook(lambda _, args, out: torch.zeros_like(out)):
            found = compare_translations(some, whole, translate(model, some))
        rows.append({
            "stack": each.stack, "layer": each.layer, "sublayer": each.name, "n": n,
            **added, **{f"{k}_before": v for k, v in start.items()}, **found,
        })  # fmt: skip
    return rows


# ---------------------------------------------------------------------------------------- neurons

FEWEST = 60
"""Words that a class needs in half of the sentences."""
AMONG_NOUNS: dict[str, Value] = {
    "masculine noun": lambda w: w.forms.gender == 0,
    "feminine noun": lambda w: w.forms.gender == 1,
    "neuter noun": lambda w: w.forms.gender == 2,
    "plural noun": lambda w: w.forms.is_plural,
    "subject noun": lambda w: w.role == "subject",
}


def compute_auc(x: Float[Tensor, "N H"], member: Bool[Tensor, "N C"]) -> Float[Tensor, "H C"]:
    """Return how often (%) a value of a class's members is above one of the others; a tie is half.

    From the members' mean rank.
    """
    n, ranks = member.double().sum(0), torch.from_numpy(rankdata(x, axis=0))
    return 100 * (ranks.T @ member.double() / n - (n + 1) / 2) / (len(x) - n)


def describe_neurons(reader: Reader) -> Rows:
    """Return the neuron that fires most clearly for each class of words, in each layer.

    It is chosen on half of the sentences and scored on the others: `auc` is how often its
    activation is higher in the class. `control`: the same choice with shuffled words.
    """
    if not isinstance(reader.model, Transformer | GPT | LinearAttention):
        return []
    sample = reader.take(N_READ)
    words = list_words(sample.parses)
    is_first = torch.tensor([word.sentence < len(sample.parses) // 2 for word in words])
    is_noun = torch.tensor([word.kind == "noun" for word in words])
    kinds = sorted({word.kind for word in words})
    groups = {kind: [word.kind == kind for word in words] for kind in kinds}
    among = {
        name: [bool(w.forms and value(w)) for w in words] for name, value in AMONG_NOUNS.items()
    }
    rows: Rows = []
    for layer, x in enumerate(collect(source_neurons, reader.model, sample.examples), 1):
        for classes, own in ((groups, torch.ones_like(is_noun)), (among, is_noun)):
            found = find_neurons(x[own], torch.tensor([*classes.values()]).T[own], is_first[own])
            rows += [
                {"layer": layer, "class": name, **row}
                for name, row in zip(classes, found, strict=True)
                if row["n"] >= FEWEST
            ]
    return rows


def find_neurons(
    x: Float[Tensor, "N H"], member: Bool[Tensor, "N C"], is_first: Bool[Tensor, " N"]
) -> list[dict[str, float]]:
    """Return, for each class, the best neuron in the first half, and its AUC in the second.

    Also that of a neuron that is chosen for shuffled classes, in which it cannot be better than 50.
    """
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    both = torch.cat([member, member[order]], 1)
    first, second = (compute_auc(x[half], both[half]) for half in (is_first, ~is_first))
    best = first.nan_to_num().argmax(0)
    own, control = second[best, torch.arange(len(best))].chunk(2)
    n = member[~is_first].sum(0)
    columns = {"n": n, "neuron": best[: len(own)], "auc": own, "control": control}
    each = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in each]


# ------------------------------------------------------------------------------- queries and keys

N_POINTS, SHOWN_KINDS = 30, ("article", "noun", "adjective", "verb")
"""Queries, and keys, of each part of speech that are kept."""


def name_own(a: Attention, head: int) -> dict[str, float | str]:
    """Return the columns that name a head; GPT's text is called the decoder's here."""
    return name_head(a, head) | ({"attention": "decoder"} if a.kind == "text" else {})


def split_projections(model: Any, a: Attention) -> tuple[Tensor, Tensor]:
    """Return the matrices W_q and W_k of an attention, (H, K, D)."""
    if isinstance(model, GPT):
        W_q, W_k, _ = a.module.W_qkv.weight.chunk(3)
    else:
        W_q, W_k = a.module.W_q.weight, a.module.W_k.weight
    n = model.config.n_heads
    return W_q.unflatten(0, (n, -1)).detach(), W_k.unflatten(0, (n, -1)).detach()


def effective_rank(matrix: Float[Tensor, "*H N M"]) -> Float[Tensor, "*H"]:
    """Return (Σ σ²)² / Σ σ⁴ of the singular values: k if k of them are equal and the others 0."""
    squares = torch.linalg.svdvals(matrix.double()).square()
    return squares.sum(-1).square() / squares.square().sum(-1)


def describe_ranks(reader: Reader) -> Rows:
    """Return the effective rank of W_q W_kᵀ of each head, after and before training."""
    rows: Rows = []
    models = reader.model, reader.untrained
    for pair in zip(*map(list_attentions, models), strict=True):
        a, _ = pair
        projections = [split_projections(*each) for each in zip(models, pair, strict=True)]
        after, before = (effective_rank(W_q.mT @ W_k) for W_q, W_k in projections)
        most = projections[0][0].shape[1]
        for head, (rank, first) in enumerate(zip(after.tolist(), before.tolist(), strict=True), 1):
            rows.append({**name_own(a, head), "rank": rank, "before": first, "most": most})
    return rows


def pair_articles(p: Parse, kind: str) -> list[tuple[int, int]]:
    """Return pairs of a query and a key by which a head can find an article's noun.

    In an encoder the article asks for its noun; in GPT, where only the past is seen, the noun for
    its article; in attention to the source, the step that writes the article for the noun.
    """
    heads = {i: h for i, h in enumerate(p.en.heads) if p.en.kinds[i] == "article"}
    if kind == "source":
        return [(t, heads[s]) for s, t in p.sentence.links if s in heads]
    return [(h, i) if kind == "text" else (i, h) for i, h in heads.items()]


@torch.inference_mode()
def describe_plane(reader: Reader) -> Rows:
    """Return queries and keys of the article's head in the plane of most of their scores' variance.

    The head is the one with the most weight on the pairs of `pair_articles`. Keys are less their
    mean, which changes no weight. Then Q Kᵀ = U Σ Vᵀ, and the points are the first two columns of
    U √Σ and V √Σ: the dot product of two is nearly their score. The first rows have the head, its
    share of weight, and the variance that the plane has.
    """
    some, rows = reader.take(N_TRANSLATED), list[dict[str, float | str]]()
    place: tuple[int, int] | None = None
    for when, model in (("after", reader.model), ("before", reader.untrained)):
        if not (attentions := [a for a in list_attentions(model) if a.kind != "decoder"]):
            return []
        with watch(a.module for a in attentions) as calls:
            read(model, batch_of(model, some.examples))
        shares = 100 * torch.stack([
            measure_share(a, arguments, some.parses)
            for a, ((arguments, _),) in zip(attentions, calls, strict=True)
        ])  # fmt: skip
        place = place or divmod(int(shares.argmax()), shares.shape[1])
        a, head = attentions[place[0]], place[1]
        (arguments, _) = calls[place[0]][0]
        kinds = [
            (p.de.kinds if a.kind == "source" else p.en.kinds, p.en.kinds) for p in some.parses
        ]
        q, k = (
            torch.cat([x[b, head, : len(pair[side])] for b, pair in enumerate(kinds)]).double()
            for side, x in enumerate(arguments[:2])
        )
        points, variance = project_scores(q, k)
        about = {"when": when, **name_own(a, head + 1)}
        rows.append({**about, "share": shares[place].item(), "variance": variance})
        for side, (name, xy) in enumerate(zip(("query", "key"), points, strict=True)):
            labels = [kind for pair in kinds for kind in pair[side]]
            rows += list_points(xy, labels, {"when": when, "side": name})
    return rows


def measure_share(a: Attention, arguments: Any, parses: Sequence[Parse]) -> Float[Tensor, " H"]:
    """Return the mean weight of each head on the pairs of `pair_articles`."""
    weights = a.module.attention_weights(*arguments)
    pairs = [(b, *pair) for b, p in enumerate(parses) for pair in pair_articles(p, a.kind)]
    b, i, j = torch.tensor(pairs).T
    return weights[b, :, i, j].mean(0)


def list_points(points: Float[Tensor, "N 2"], kinds: Sequence[str], about: dict[str, str]) -> Rows:
    """Return a row for the first points of each of the parts of speech that are shown."""
    seen, rows = Counter[str](), list[dict[str, float | str]]()
    for kind, (x, y) in zip(kinds, points.tolist(), strict=True):
        seen[kind] += 1
        if kind in SHOWN_KINDS and seen[kind] <= N_POINTS:
            rows.append({**about, "kind": kind, "x": x, "y": y})
    return rows


def project_scores(
    q: Float[Tensor, "N K"], k: Float[Tensor, "N K"]
) -> tuple[tuple[Tensor, Tensor], float]:
    """Return the plane's points of queries and keys, and the variance of the scores (%) it has."""
    k = k - k.mean(0)
    Q_q, R_q = torch.linalg.qr(q)
    Q_k, R_k = torch.linalg.qr(k)
    U, sigma, Vh = torch.linalg.svd(R_q @ R_k.T)
    scale = sigma[:2].sqrt()
    share = 100 * sigma[:2].square().sum() / sigma.square().sum()
    return ((Q_q @ U[:, :2]) * scale, (Q_k @ Vh[:2].T) * scale), share.item()


# ---------------------------------------------------------------------------------------- lengths


def describe_lengths(reader: Reader) -> Rows:
    """Return how an adjective's vector changes with "very" before it, layer by layer.

    "The very old …" is compared with "the sad old …", so that the adjective has the same place; the
    words in place of "sad" vary. `ratio`: the mean of its lengths' ratios; `shift`: the mean cosine
    of any two of the differences, `control`: that of the differences between "the sad old …" and
    "the lazy old …".
    """
    people, adjectives = [noun for noun in NOUNS if noun.kind == "h"], ADJECTIVES["h"]
    laugh = next(verb for verb in VERBS if verb.en[0] == "laugh")
    n = len(adjectives)

    def say(before: str, adjective: Any, noun: Any) -> Sentence:
        text = parse([Clause(NP(noun, "the", (adjective,)), VP(laugh))]).sentence
        return text._replace(en=(text.en[0], before, *text.en[1:]))

    def read_after(befores: Sequence[str]) -> list[Tensor]:
        each = zip(befores, adjectives, (people * n)[:n], strict=True)
        examples = encode_sentences([say(*words) for words in each], reader.sample.tokenizer)
        layers = collect(source_layers, reader.model, examples)
        return [x.unflatten(0, (n, -1))[:, 2].double() for x in layers]

    others = [[adjectives[(i + by) % n].en for i in range(n)] for by in (3, 5)]
    layers = zip(*map(read_after, (["very"] * n, *others)), strict=True)
    rows: Rows = []
    for layer, (graded, plain, other) in enumerate(layers):
        ratio = (graded.norm(dim=1) / plain.norm(dim=1)).mean().item()
        shift, control = (mean_cosine(x - plain) for x in (graded, other))
        columns = {"ratio": ratio, "shift": shift, "control": control}
        rows.append({"layer": layer, "word": "very", "n": n, **columns})
    return rows


def mean_cosine(x: Float[Tensor, "N D"]) -> float:
    """Return the mean cosine of all pairs of rows; rows of zeros have none."""
    x = F.normalize(x[x.norm(dim=1) > 1e-9], dim=1)
    n = len(x)
    return ((x.sum(0).square().sum() - n) / (n * (n - 1))).item() if n > 1 else 0.0


# -------------------------------------------------------------------------------------- positions

N_PLACES, FARTHEST = 80, 60


def describe_positions(reader: Reader) -> Rows:
    """Return the mean cosine of two positions by their distance, less the mean position."""
    rows: Rows = []
    for when, model in (("after", reader.model), ("before", reader.untrained)):
        if isinstance(table := getattr(model, "positions", None), nn.Embedding):
            kind, x = "learned", table.weight.detach()[:N_PLACES].cpu()
        elif type(model) is Transformer:
            kind, x = "sinusoids", sinusoids(torch.arange(N_PLACES), model.config.d_model)
        else:
            continue
        cos = cosines(x)
        for d in range(1, min(FARTHEST + 1, len(cos))):
            mean = cos.diagonal(d).mean().item()
            rows.append({"when": when, "kind": kind, "distance": d, "cosine": mean})
    return rows


# ----------------------------------------------------------------------------------- word by word

AGES = {"1": (1, 1), "2": (2, 2), "3–4": (3, 4), "5–8": (5, 8), "9 or more": (9, 999)}
"""Target words since a word was said."""


class Said(NamedTuple):
    """Of each state and content word, whether the word is still to come, and when it was said."""

    to_come: Bool[Tensor, "N W"]
    age: Float[Tensor, "N W"]
    """Target words read since its last one, itself included; 0: not said."""
    is_end: Bool[Tensor, " N"]
    """Whether EOS comes next."""


def label_states(sentences: Sequence[Sentence], lengths: Sequence[int]) -> Said:
    """Label the states after 0, 1, 2, … target words; `lengths` are those of the targets."""
    parts = []
    for sentence, n in zip(sentences, lengths, strict=True):
        t, last = torch.arange(n + 1), dict(sorted(sentence.links))
        to_come, age = torch.zeros(n + 1, len(WORDS)).bool(), torch.zeros(n + 1, len(WORDS))
        for end, word in sorted((last[i], word) for i, word in english_words(sentence.en)):
            to_come[:, NUMBER[word]] |= t <= end
            age[end + 1 :, NUMBER[word]] = t[end + 1 :] - end
        parts.append((to_come, age, t == n))
    return Said(*(torch.cat(each) for each in zip(*parts, strict=True)))


def mean_auc(
    scores: Float[Tensor, "N W"], inside: Bool[Tensor, "N W"], outside: Bool[Tensor, "N W"]
) -> tuple[float, int]:
    """Return the mean AUC of the words that have five states in each group, and their number."""
    found = [
        compute_auc(scores[i | o, w : w + 1], i[i | o, None]).item()
        for w, (i, o) in enumerate(zip(inside.T, outside.T, strict=True))
        if min(i.sum(), o.sum()) >= 5
    ]
    return (sum(found) / len(found) if found else 50.0), len(found)


@dataclass
class States:
    """The decoder's states in all sentences, and in a last one that is shown word by word."""

    x: Float[Tensor, "N F"]
    sentences: list[Sentence]
    n_fit: int
    """States that are fitted: those of two thirds of the sentences."""

    def fit(self, sentences: Sequence[Sentence]) -> tuple[Said, Tensor, Tensor]:
        """Label the states by these sentences; also return what linear probes make of them.

        These are least-squares estimates that each word is to come, and that it was said.
        """
        said = label_states(sentences, [len(s.de) for s in self.sentences])
        target = torch.cat([said.to_come, said.age > 0], 1).double()
        weights = fit_ridge(self.x[: self.n_fit], target[: self.n_fit])
        come, was = (self.x @ weights).chunk(2, 1)
        return said, come, was


def describe_said(reader: Reader) -> Rows:
    """Return what probes of the decoder's state read of words to come, and of words said.

    Two linear probes a content word, fitted on two thirds of the sentences: is it to come, was it
    said? `auc`: how often the score is higher in states with it than in those of sentences without.
    `control`: the same, fitted to and tested on the labels of another sentence of that length.
    """
    sentences = reader.states.sentences
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i].de))
    other = dict(zip(order, [*order[1:], order[0]], strict=True))
    results: dict[str, list[tuple[float, int]]] = {}
    for texts in (sentences, [sentences[other[i]] for i in range(len(sentences))]):
        said, come, was = reader.states.fit(texts)
        absent, is_end = ~said.to_come & (said.age == 0), said.is_end.unsqueeze(1)
        gone = (said.age > 0) & ~said.to_come
        groups = {"to come": (come, said.to_come, absent)}
        for name, (low, high) in AGES.items():
            groups[name] = was, gone & (said.age >= low) & (said.age <= high), absent
        groups["before EOS"] = was, is_end & gone, is_end & absent
        for name, group in groups.items():
            tested = [each[reader.states.n_fit :] for each in group]
            results.setdefault(name, []).append(mean_auc(*tested))
    return [
        {"state": name, "words": own[1], "auc": own[0], "control": control[0]}
        for name, (own, control) in results.items()
    ]


def follow_sentence(reader: Reader) -> Rows:
    """Return what the probes estimate (%) of each content word after each word of one sentence."""
    said, come, _ = reader.states.fit(reader.states.sentences)
    sentence = reader.states.sentences[-1]
    words = dict.fromkeys(word for _, word in english_words(sentence.en))
    rows: Rows = []
    for (step, written), word in product(enumerate(("BOS", *sentence.de)), words):
        at = step - len(sentence.de) - 1, NUMBER[word]
        estimate, is_to_come = 100 * come[at].clamp(0, 1).item(), int(said.to_come[at])
        about = {"step": step, "written": written, "word": word}
        rows.append({**about, "to_come": estimate, "is_to_come": is_to_come})
    return rows


MEASURES: dict[str, Callable[[Reader], Rows]] = {
    "neighbours": describe_neighbours,
    "nearest": list_nearest,
    "senses": compare_senses,
    "probes": probe_layers,
    "stream": describe_stream,
    "neurons": describe_neurons,
    "ranks": describe_ranks,
    "plane": describe_plane,
    "lengths": describe_lengths,
    "positions": describe_positions,
    "said": describe_said,
    "sentence": follow_sentence,
}
