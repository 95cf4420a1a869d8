"""The only list of models: in order of history, with their names in all figures, tables and lists.

No torch. A model's entry is what can be known about it without building it; the rest is in its
file. Another model is its file and one entry here, or one call of `register`. Variants of a model
are listed beside it: a comparison trains them if they are named. The kinds of tokenizers are listed
here as well: command lines offer both before they import anything. So are the first ids of all
vocabularies, for processes that encode text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model."""

    label: str
    """Its display name, the same everywhere."""
    year: int
    paper: str
    home: str
    """Where its class is: MODULE:CLASS."""
    state: Literal["fixed", "grows"]
    """Whether what passes from source to target has a fixed size or grows with the source."""
    handed_over: str
    """Number of floats that pass (per token if it grows): sums of products of integers and sizes.

    A factor a/b is a quotient of two sizes.
    """
    attends: bool = False
    """Whether the target weighs every word of the source: `align` returns the weights."""
    colour: str
    """In figures, as #RRGGBB."""
    marker: str
    """In figures, as matplotlib has it."""
    variant_of: str = ""
    """The model that it varies and follows in figures and lists; empty: a model of its own."""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    """Fields of its Config that make it this variant."""
    width: int = 1
    """Its d_model as a multiple of the one that fits a task's number of parameters."""

    @property
    def kind(self) -> str:
        """How the target gets at the source; the five papers have attention or one vector."""
        if self.state == "grows":
            return "attention"
        return "fixed memory" if self.attends else "one vector"

    def source_bytes(self, sizes: Mapping[str, Any], n_source: int) -> int:
        """Return the float32 bytes that the paper hands over for a source of `n_source` tokens.

        Whatever else an implementation keeps, such as keys and values, is not counted.
        """
        n = sum(
            math.prod(_number(factor, sizes) for factor in term.split(" × "))
            for term in self.handed_over.split(" + ")
        )
        return 4 * n * (n_source if self.state == "grows" else 1)


def _number(factor: str, sizes: Mapping[str, Any]) -> int:
    """Return the value of an integer, a size, or a quotient of two sizes."""
    name, _, divisor = factor.partition("/")
    return int(name) if name.isdigit() else sizes[name] // (sizes[divisor] if divisor else 1)


CATALOG = {
    "rnn_encdec": Entry(
        label="RNN encoder–decoder",
        year=2014,
        paper="Cho et al., arXiv:1406.1078",
        home="seqmodels.models.rnn_encdec:RNNEncDec",
        state="fixed",
        handed_over="d_model",
        colour="#C98200",
        marker="s",
    ),
    "bahdanau": Entry(
        label="Bahdanau",
        year=2014,
        paper="Bahdanau et al., arXiv:1409.0473",
        home="seqmodels.models.bahdanau:Bahdanau",
        state="grows",
        handed_over="2 × d_model",
        attends=True,
        colour="#1B75BC",
        marker="o",
    ),
    "lstm_seq2seq": Entry(
        label="LSTM seq2seq",
        year=2014,
        paper="Sutskever et al., arXiv:1409.3215",
        home="seqmodels.models.lstm_seq2seq:LSTMSeq2Seq",
        state="fixed",
        handed_over="2 × n_layers × d_model",
        colour="#B02A1E",
        marker="D",
    ),
    "transformer": Entry(
        label="Transformer",
        year=2017,
        paper="Vaswani et al., arXiv:1706.03762",
        home="seqmodels.models.transformer:Transformer",
        state="grows",
        handed_over="d_model",
        attends=True,
        colour="#009B77",
        marker="^",
    ),
    "gpt": Entry(
        label="GPT",
        year=2019,
        paper="Radford et al., OpenAI (GPT-2)",
        home="seqmodels.models.gpt:GPT",
        state="grows",
        handed_over="n_layers × d_model",
        attends=True,
        colour="#3B2A84",
        marker="v",
    ),
    "linear_attention": Entry(
        label="Linear attention",
        year=2020,
        paper="Katharopoulos et al., arXiv:2006.16236",
        home="seqmodels.models.linear_attention:LinearAttention",
        state="fixed",
        handed_over="n_layers × n_draws × d_model × d_model/n_heads + n_layers × n_draws × d_model",
        attends=True,
        colour="#C2459A",
        marker="P",
    ),
}


def _varied(model: str, label: str, colour: str, marker: str, **fields: Any) -> Entry:
    """Return the entry of a variant: the model's own, with other fields and a short label."""
    label = f"{CATALOG[model].label.split()[0]}, {label}"
    fields |= {"label": label, "colour": colour, "marker": marker, "variant_of": model}
    return replace(CATALOG[model], **fields)


def _positions(kind: str, label: str, colour: str, marker: str, year: int, paper: str) -> Entry:
    """Return the entry of a Transformer with other positions."""
    home = "seqmodels.models.variants.positions:TransformerPositions"
    fields = {"year": year, "paper": paper, "home": home, "sizes": {"positions": kind}}
    return _varied("transformer", label, colour, marker, **fields)


def _ladder(kind: str, label: str, marker: str, colour: str, fed: str) -> dict[str, Entry]:
    """Return the entries of an LSTM with a context vector, without and with input feeding."""
    about: dict[str, Any] = {"year": 2015, "paper": "Luong et al., arXiv:1508.04025"}
    about |= {"home": "seqmodels.models.variants.ladder:Ladder"}
    if kind != "last":
        about |= {"state": "grows", "handed_over": "d_model", "attends": True}
    sizes = {"attention": kind}
    return {
        f"lstm_seq2seq_{kind}": _varied(
            "lstm_seq2seq", label, colour, marker[0], sizes=sizes, **about
        ),
        f"lstm_seq2seq_{kind}_fed": _varied(
            "lstm_seq2seq", f"{label}, fed", fed, marker[1],
            sizes={**sizes, "is_input_feeding": True}, **about,
        ),
    }  # fmt: skip


def _dial() -> dict[str, Entry]:
    """Return RNN encoder–decoders of fixed widths, and Bahdanau's with k pooled annotations."""
    found = {}
    looks = ("#F2C66D", "o"), ("#E08E1B", "^"), ("#B8651B", "v"), ("#8A3B12", "D"), ("#4A1F08", "P")
    for d, (colour, marker) in zip((32, 64, 128, 256, 512), looks, strict=True):
        found[f"rnn_encdec_{d}"] = _varied(
            "rnn_encdec", f"{d} numbers", colour, marker, sizes={"d_model": d}
        )
    looks = ("#9FD3E6", "s"), ("#6FB3D9", "^"), ("#4B8FD1", "v"), ("#3A62B0", "D"), ("#28357F", "P")
    for k, (colour, marker) in zip((1, 2, 4, 8, 16), looks, strict=True):
        found[f"bahdanau_{k}"] = _varied(
            "bahdanau", f"{k} vector{'s' * (k > 1)}", colour, marker, year=2017,
            paper="after Britz et al., arXiv:1707.00110", state="fixed",
            home="seqmodels.models.variants.pooled:PooledBahdanau",
            handed_over="2 × n_queries × d_model", sizes={"n_queries": k},
        )  # fmt: skip
    return found


VARIANTS = {
    **_dial(),
    "rnn_encdec_x2": _varied("rnn_encdec", "2 × width", "#E0A94A", "p", width=2),
    "rnn_encdec_x4": _varied("rnn_encdec", "4 × width", "#7A4E00", "h", width=4),
    "lstm_seq2seq_x2": _varied("lstm_seq2seq", "2 × width", "#DB6A5B", "d", width=2),
    "lstm_seq2seq_x4": _varied("lstm_seq2seq", "4 × width", "#6B130B", "8", width=4),
    "lstm_seq2seq_forward": _varied(
        "lstm_seq2seq", "source not reversed", "#8A8A8A", "X", sizes={"is_reversed": False}
    ),
    **_ladder("last", "last vector", "<>", "#D9963A", "#96601A"),
    **_ladder("dot", "dot", "^v", "#6FA8DC", "#1F5F9E"),
    **_ladder("general", "general", "sp", "#6CBF8B", "#1B7A45"),
    **_ladder("additive", "additive", "oh", "#B79AD9", "#64369B"),
    "transformer_sinusoids": _positions(
        "sinusoids", "sinusoids", "#00A37D", "P", 2017, "Vaswani et al., arXiv:1706.03762"
    ),
    "transformer_learned": _positions(
        "learned", "learned positions", "#1F6E8C", "<", 2017, "Gehring et al., arXiv:1705.03122"
    ),
    "transformer_rotary": _positions(
        "rotary", "rotary positions", "#7BB52A", ">", 2021, "Su et al., arXiv:2104.09864"
    ),
    "transformer_none": _positions(
        "none", "no positions", "#8C8C6E", "X", 2022, "Haviv et al., arXiv:2203.16634"
    ),
    "linear_attention_favor": _varied(
        "linear_attention",
        "FAVOR+",
        "#7A2460",
        "*",
        year=2021,
        paper="Choromanski et al., arXiv:2009.14794",
        sizes={"feature_map": "favor"},
    ),
}
"""Models that differ from one of the CATALOG in one respect, which keep its place in history."""


def entries() -> dict[str, Entry]:
    """Return the entries of all models by name: each of the CATALOG, then its variants."""
    found = {}
    for name, entry in CATALOG.items():
        found[name] = entry
        found |= {v: varied for v, varied in VARIANTS.items() if varied.variant_of == name}
    return found


def entry_of(name: str) -> Entry:
    """Return the entry of a model or variant; raise ValueError for a name that neither has."""
    if name not in (known := entries()):
        choice = ", ".join([*CATALOG, *VARIANTS])
        raise ValueError(f"unknown model {name!r}; choose from {choice}")
    return known[name]


def register(name: str, entry: Entry) -> None:
    """Add a model to the list.

    Raises ValueError for a name that another model has.
    """
    if (known := entries().get(name, entry)) != entry:
        raise ValueError(f"{name} is the name of another model, {known.home}")
    (VARIANTS if entry.variant_of else CATALOG)[name] = entry


def attending() -> list[str]:
    """Return the names of the models that weigh every word of the source."""
    return [name for name, entry in CATALOG.items() if entry.attends]


PAD, BOS, EOS, UNK = range(4)
"""The first four ids of every vocabulary."""
PUBLISHED = ("gpt2", "o200k_base")
"""tiktoken's encodings that can be downloaded: those of GPT-2 and of GPT-4o."""
TOKENIZERS = ("bpe", "words", "spaces", "characters", "bytes", *PUBLISHED)
"""The kinds of tokenizers that `tokenizers.make` makes."""
SIZED = ("bpe", "words", "spaces")
"""Those whose size can be chosen."""
