"""The list of models: the papers in order of history, then their variants. It imports no torch.

A model's `ModelInfo` is what can be known about it without building it; the rest is in its file.
Another model is its file and one entry in PAPERS, or one call of `register`. A comparison trains
variants only if they are named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seqmodels.utils.imports import explain, import_class

if TYPE_CHECKING:
    from seqmodels.interface import SequenceModel


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """A model, or a variant of one."""

    label: str
    """Its display name in all figures, tables and lists."""
    year: int
    cite: str
    """Authors and arXiv number."""
    home: str
    """Where its class is: MODULE:CLASS."""
    group: Literal["five", "later"] = "later"
    """Whether it is one of the five papers that titles and averages are about."""
    memory: Literal["vector", "fixed", "grows"]
    """What the decoder can see of the source: one vector, a memory of a fixed size that it attends
    to, or one that grows with the source."""
    attends: bool = False
    """Whether the target weighs every word of the source: `align` returns the weights."""
    variant_of: str = ""
    """The model or variant from which it differs; empty: a model of its own."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its Config that make it this variant."""
    width: int = 1
    """Its d_model as a multiple of the one that fits a task's number of parameters."""


PAPERS = {
    "rnn_encdec": ModelInfo(
        label="RNN encoder–decoder",
        year=2014,
        cite="Cho et al., arXiv:1406.1078",
        home="seqmodels.models.rnn_encdec:RNNEncDec",
        group="five",
        memory="vector",
    ),
    "bahdanau": ModelInfo(
        label="Bahdanau",
        year=2014,
        cite="Bahdanau et al., arXiv:1409.0473",
        home="seqmodels.models.bahdanau:Bahdanau",
        group="five",
        memory="grows",
        attends=True,
    ),
    "lstm_seq2seq": ModelInfo(
        label="LSTM seq2seq",
        year=2014,
        cite="Sutskever et al., arXiv:1409.3215",
        home="seqmodels.models.lstm_seq2seq:LSTMSeq2Seq",
        group="five",
        memory="vector",
    ),
    "transformer": ModelInfo(
        label="Transformer",
        year=2017,
        cite="Vaswani et al., arXiv:1706.03762",
        home="seqmodels.models.transformer:Transformer",
        group="five",
        memory="grows",
        attends=True,
    ),
    "gpt": ModelInfo(
        label="GPT",
        year=2019,
        cite="Radford et al., OpenAI (GPT-2)",
        home="seqmodels.models.gpt:GPT",
        group="five",
        memory="grows",
        attends=True,
    ),
    "linear_attention": ModelInfo(
        label="Linear attention",
        year=2020,
        cite="Katharopoulos et al., arXiv:2006.16236",
        home="seqmodels.models.linear_attention:LinearAttention",
        memory="fixed",
        attends=True,
    ),
}

VARIANTS: dict[str, ModelInfo] = {}
"""Models that differ from one of the PAPERS in one respect, and keep its place in history."""


def papers() -> dict[str, ModelInfo]:
    """Return all papers by name: each model, then its variants."""
    rank = {model: i for i, model in enumerate(PAPERS)}
    names = sorted([*PAPERS, *VARIANTS], key=lambda name: rank[model_of(name)])
    return {name: (PAPERS | VARIANTS)[name] for name in names}


def paper_of(name: str) -> ModelInfo:
    """Return the paper of a model or variant; raise ValueError for an unknown name."""
    if (paper := PAPERS.get(name) or VARIANTS.get(name)) is None:
        known = ", ".join([*PAPERS, *VARIANTS])
        raise ValueError(f"unknown model {name!r}; choose from {known}, or give FILE.py:CLASS")
    return paper


def ancestors(name: str) -> list[str]:
    """Return a name, that of what it varies, and so on, up to one of the PAPERS."""
    names = [name]
    while parent := paper_of(names[-1]).variant_of:
        names.append(parent)
    return names


def model_of(name: str) -> str:
    """Return which of the PAPERS a model or variant is, or varies."""
    return ancestors(name)[-1]


def vary(
    name: str, label: str, sizes: Mapping[str, Any] | None = None, width: int = 1, **fields: Any
) -> ModelInfo:
    """Return a variant of a model or variant: its paper, with other sizes, fields and its label."""
    base = paper_of(name)
    fields["label"] = f"{base.label if base.variant_of else base.label.split()[0]}, {label}"
    fields["width"] = base.width if width == 1 else width
    return replace(base, variant_of=name, sizes={**base.sizes, **(sizes or {})}, **fields)


def register_recorded(name: str, spec: Mapping[str, Any]) -> None:
    """Add the arm that a record describes, unless its name is taken or its model is unknown."""
    listed = papers()
    if name not in listed and spec["varies"] in listed:
        paper = vary(spec["varies"], "", spec["sizes"], spec["width"])
        VARIANTS[name] = replace(paper, label=spec["label"])


def register(name: str, paper: ModelInfo) -> None:
    """Add a model or a variant to the list; raise ValueError if another one has the name."""
    if (other := papers().get(name, paper)) != paper:
        raise ValueError(f"{name} is the name of another model, {other.home}")
    (VARIANTS if paper.variant_of else PAPERS)[name] = paper


# ------------------------------------------------------------------------------------- Variants


def add_variant(model: str, end: object, label: str, sizes: Any = None, **fields: Any) -> None:
    """Add a variant of a model, whose name is the model's and this end; see `vary`."""
    VARIANTS[f"{model}_{end}"] = vary(model, label, sizes, **fields)


def add_recurrent_variants() -> None:
    """Add the variants of the recurrent models: by width, and towards attention."""
    for d in (32, 64, 128, 256, 512):
        add_variant("rnn_encdec", d, f"{d} numbers", {"d_model": d})
    home = "seqmodels.models.variants.encoders:OtherEncoder"
    for reads, label in (("both", "encoder of both directions"), ("pooled", "pooled encoder")):
        cite = "after Cho et al., arXiv:1406.1078, and Bahdanau et al., arXiv:1409.0473"
        add_variant("rnn_encdec", reads, label, {"reads": reads}, cite=cite, home=home)
    for model in ("rnn_encdec", "lstm_seq2seq"):
        for width in (2, 4):
            add_variant(model, f"x{width}", f"{width} × width", width=width)
    add_variant("lstm_seq2seq", "forward", "source not reversed", {"is_reversed": False})
    ladder = {"year": 2015, "cite": "Luong et al., arXiv:1508.04025"}
    ladder |= {"home": "seqmodels.models.variants.ladder:Ladder"}
    for kind in ("last", "dot", "general", "additive"):
        label, sizes = "last vector" if kind == "last" else kind, {"attention": kind}
        ladder |= {"memory": "vector" if kind == "last" else "grows", "attends": kind != "last"}
        add_variant("lstm_seq2seq", kind, label, sizes, **ladder)
        fed = sizes | {"is_input_feeding": True}
        add_variant("lstm_seq2seq", f"{kind}_fed", f"{label}, fed", fed, **ladder)


def add_transformer_variants() -> None:
    """Add the variants of the Transformer: other positions, and what it is without a part."""
    home = "seqmodels.models.variants.positions:TransformerPositions"
    for kind, label, year, cite in (
        ("sinusoids", "sinusoids", 2017, "Vaswani et al., arXiv:1706.03762"),
        ("learned", "learned positions", 2017, "Gehring et al., arXiv:1705.03122"),
        ("rotary", "rotary positions", 2021, "Su et al., arXiv:2104.09864"),
        ("alibi", "linear biases", 2022, "Press et al., arXiv:2108.12409"),
        ("none", "no positions", 2022, "Haviv et al., arXiv:2203.16634"),
    ):
        sizes = {"positions": kind}
        add_variant("transformer", kind, label, sizes, year=year, cite=cite, home=home)
    home = "seqmodels.models.variants.ablated:AblatedTransformer"
    for end, part, label in (
        ("unscaled", "scale", "scores not divided by √d"),
        ("cosine", "lengths", "cosine scores"),
        ("unnormalised", "normaliser", "weights not normalised"),
        ("no_residual", "residual", "no residual connections"),
        ("no_feed_forward", "feed_forward", "no feed-forward layers"),
        ("no_norm", "norm", "no layer normalisation"),
        ("untied", "tying", "output not tied"),
    ):
        cite = "after Vaswani et al., arXiv:1706.03762"
        sizes = {"without": part}
        add_variant("transformer", end, label, sizes, cite=cite, home=home, group="later")


def add_variants_between() -> None:
    """Add the models between two chapters, pooled and convolved ones, and linear attention's."""
    for model, end, label, own_class, sizes in (
        ("bahdanau", "dot", "scaled dot product", "DotBahdanau", {}),
        ("bahdanau", "heads", "several heads", "HeadsBahdanau", {"n_heads": 4}),
        ("bahdanau", "tied", "tied output", "TiedBahdanau", {"n_heads": 4}),
        ("transformer", "recurrent_1", "recurrent, 1 layer", "RecurrentTransformer",
         {"n_layers": 1}),
        ("transformer", "recurrent", "recurrent", "RecurrentTransformer", {}),
        ("transformer", "recurrent_decoder", "recurrent decoder", "RecurrentDecoder", {}),
    ):  # fmt: skip
        source: dict[str, Any] = {"year": 2018, "cite": "after Chen et al., arXiv:1804.09849"}
        if model == "bahdanau":
            source = {"year": 2017, "cite": "after Vaswani et al., arXiv:1706.03762"}
        home = f"seqmodels.models.variants.bahdanau_to_transformer:{own_class}"
        add_variant(model, end, label, sizes, home=home, group="later", **source)
    pooled = {"year": 2017, "cite": "after Britz et al., arXiv:1707.00110", "group": "later"}
    pooled |= {"home": "seqmodels.models.variants.pooled:PooledBahdanau", "memory": "fixed"}
    for k in (1, 2, 4, 8, 16):
        add_variant("bahdanau", k, f"{k} vector{'s' * (k > 1)}", {"n_queries": k}, **pooled)
    favor = {"year": 2021, "cite": "Choromanski et al., arXiv:2009.14794"}
    add_variant("linear_attention", "favor", "FAVOR+", {"feature_map": "favor"}, **favor)
    for model in ("transformer", "gpt", "linear_attention"):
        own_class = PAPERS[model].home.partition(":")[2]
        home = f"seqmodels.models.variants.convolved:Convolved{own_class}"
        convolved = {"year": 2023, "cite": "after Arora et al., arXiv:2312.04927"}
        add_variant(model, "conv", "convolution", home=home, group="later", **convolved)


add_recurrent_variants()
add_transformer_variants()
add_variants_between()


# --------------------------------------------------------------------------------------- Classes


class _Models(Mapping[str, "type[SequenceModel]"]):
    """The classes of all models by name, each imported when it is first asked for.

    Variants are found by name as well, but are not counted or listed.
    """

    def __getitem__(self, name: str) -> type[SequenceModel]:
        return import_class((PAPERS.get(name) or VARIANTS[name]).home)

    def __iter__(self) -> Iterator[str]:
        return iter(PAPERS)

    def __len__(self) -> int:
        return len(PAPERS)


MODELS = _Models()


def paper_config(name: str) -> Any:
    """Return the first Config in a model's file, that of its paper."""
    names = vars(sys.modules[MODELS[name].__module__]).values()
    return next(sizes for sizes in names if isinstance(sizes, MODELS[name].config_type))


def register_packages() -> None:
    """Register the `ModelInfo`s that installed packages offer as entry points `seqmodels.models`.

    One that cannot be loaded is left out with a note: it concerns nobody who does not use it.
    """
    for entry in entry_points(group="seqmodels.models"):
        try:
            register(entry.name, entry.load())
        except Exception as error:
            print(f"note: the model {entry.name} of {entry.value}: {error}", file=sys.stderr)


def register_file(home: str) -> str:
    """Register the class of FILE.py:CLASS under its own name; return the name.

    Its label is its attribute `label`, or its name. What its decoder sees of the source follows
    from its Config's `source_floats` and from its attention. Raises ValueError if it is no model.
    """
    import torch

    model_type: Any = import_class(home)
    place, _, name = home.rpartition(":")
    lacks = [part for part in ("config_type", "encode", "step") if not hasattr(model_type, part)]
    if lacks or not hasattr(model_type.config_type, "source_floats"):
        part = lacks[0] if lacks else "a Config with the method source_floats(n)"
        raise ValueError(f"{home} lacks {part}; seqmodels check {home} says more")
    if other := next((n for n in papers() if n.lower() == name.lower() and n != name), None):
        raise ValueError(f"{home}: {other} is the name of another model; rename the class")
    try:
        with torch.device("meta"):
            model = model_type(model_type.config_type(vocab_size=8))
    except Exception as error:
        where = Path(place).resolve()
        raise ValueError(f"{home} cannot be built: {explain(error, where)}") from error
    attends = bool(model.cross_attentions)
    grows = model.config.source_floats(8) != model.config.source_floats(16)
    paper = ModelInfo(
        label=getattr(model_type, "label", name),
        year=date.today().year,
        cite=Path(place).name,
        home=f"{Path(place).resolve()}:{name}",
        memory="grows" if grows else "fixed" if attends else "vector",
        attends=attends,
    )
    register(name, paper)
    return name


def build(name: str, vocab_size: int, **sizes: Any) -> SequenceModel:
    """Build a model or a variant; sizes left out are the paper's.

    Raises ValueError for an unknown name, TypeError for a size that the model's Config lacks.
    """
    sizes = {**paper_of(name).sizes, **sizes}
    model_type = MODELS[name]
    return model_type(model_type.config_type(vocab_size=vocab_size, **sizes))


register_packages()
