"""The variants of the models, one line each: its kind, its label, and the fields that differ.

A variant that has the class of its model has another value of a field of its Config, or a multiple
of its width, as `--vary FIELD=VALUE` gives it. Records and commands know such names, but lists of
models leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

Value = int | float | str | bool | None
"""The type of a value of a model's Config or of TrainConfig."""
Fields = Mapping[str, Value]
"""Names of such fields, and their values."""
Group = Literal["five", "later", "mistaken"]
Memory = Literal["vector", "fixed", "grows"]


class Kind(TypedDict, total=False):
    """Fields of `ModelInfo` that variants share; the others are those of the model `variant_of`."""

    variant_of: str
    class_path: str
    year: int
    cite: str
    group: Group
    memory: Memory
    attends: bool
    width: int


def kind(variant_of: str, class_path: str, year: int, cite: str) -> Kind:
    """Return what the variants of a class share; the class is in a module beside this one."""
    path = f"seqmodels.models.variants.{class_path}"
    return {"variant_of": variant_of, "class_path": path, "year": year, "cite": cite}


def later(variant_of: str, class_path: str, year: int, cite: str) -> Kind:
    """Return a kind that is not counted among the five papers, as the model is that it varies."""
    return kind(variant_of, class_path, year, cite) | {"group": "later"}


BOTH_PAPERS = "after Cho et al., arXiv:1406.1078, and Bahdanau et al., arXiv:1409.0473"
LUONG = "Luong et al., arXiv:1508.04025"
AFTER_VASWANI = "after Vaswani et al., arXiv:1706.03762"
BRITZ = "after Britz et al., arXiv:1707.00110"
CHEN = "after Chen et al., arXiv:1804.09849"
ARORA = "after Arora et al., arXiv:2312.04927"

LADDER, POSITIONS = "ladder:Ladder", "positions:TransformerPositions"
BETWEEN, CONVOLVED = "bahdanau_to_transformer", "convolved"
TO_2023, WITHOUT = "gpt_to_2023:GPTTo2023", "ablated:AblatedGPT"

RNN: Kind = {"variant_of": "rnn_encdec"}
READER = kind("rnn_encdec", "encoders:OtherEncoder", 2014, BOTH_PAPERS)
ELMAN = kind("rnn_encdec", "units:RNNWithUnits", 1990, "after Elman, Cognitive Science 14(2)")
UNEQUAL = kind("rnn_encdec", "units:RNNWithUnits", 2014, "after Cho et al., arXiv:1406.1078")
LSTM: Kind = {"variant_of": "lstm_seq2seq"}
LAST = kind("lstm_seq2seq", LADDER, 2015, LUONG)
ATTENDING = LAST | {"memory": "grows", "attends": True}
FED = {"is_input_feeding": True}
DOT = later("bahdanau", f"{BETWEEN}:DotBahdanau", 2017, AFTER_VASWANI)
HEADS = later("bahdanau", f"{BETWEEN}:HeadsBahdanau", 2017, AFTER_VASWANI)
TIED = later("bahdanau", f"{BETWEEN}:TiedBahdanau", 2017, AFTER_VASWANI)
POOLED = later("bahdanau", "pooled:PooledBahdanau", 2017, BRITZ) | {"memory": "fixed"}
SINUSOIDS = kind("transformer", POSITIONS, 2017, "Vaswani et al., arXiv:1706.03762")
LEARNED = kind("transformer", POSITIONS, 2017, "Gehring et al., arXiv:1705.03122")
ROTARY = kind("transformer", POSITIONS, 2021, "Su et al., arXiv:2104.09864")
ALIBI = kind("transformer", POSITIONS, 2022, "Press et al., arXiv:2108.12409")
NONE = kind("transformer", POSITIONS, 2022, "Haviv et al., arXiv:2203.16634")
ABLATED = later("transformer", "ablated:AblatedTransformer", 2017, AFTER_VASWANI)
MISTAKEN = kind("transformer", "mistaken:MistakenTransformer", 2017, AFTER_VASWANI) | {
    "group": "mistaken"
}
RECURRENT = later("transformer", f"{BETWEEN}:RecurrentTransformer", 2018, CHEN)
DECODER = later("transformer", f"{BETWEEN}:RecurrentDecoder", 2018, CHEN)
CONV = later("transformer", f"{CONVOLVED}:ConvolvedTransformer", 2023, ARORA)
GPT_CONV = later("gpt", f"{CONVOLVED}:ConvolvedGPT", 2023, ARORA)
LINEAR: Kind = {"variant_of": "linear_attention", "year": 2023, "cite": ARORA}
FAVOR = kind("linear_attention", "favor:Favor", 2021, "Choromanski et al., arXiv:2009.14794")
DELTA: Kind = {"variant_of": "gated_deltanet"}
GPT_WITHOUT = later("gpt", WITHOUT, 2019, "after Radford et al., OpenAI (GPT-2)")
GPT_POSTNORM = later("gpt", WITHOUT, 2018, "after Radford et al., OpenAI (GPT)")
GPT_RMS = later("gpt", TO_2023, 2019, "Zhang and Sennrich, arXiv:1910.07467")
GPT_ROTARY = later("gpt", TO_2023, 2021, "Su et al., arXiv:2104.09864")
GPT_SWIGLU = later("gpt", TO_2023, 2020, "Shazeer, arXiv:2002.05202")
GPT_GROUPED = later("gpt", TO_2023, 2023, "Ainslie et al., arXiv:2305.13245")
GPT_2023 = later("gpt", TO_2023, 2023, "Touvron et al., arXiv:2307.09288 (Llama 2)")
ALL_2023: Fields = {"norm": "rms", "positions": "rotary", "ff": "swiglu", "n_kv_heads": 2}

ROWS: dict[str, tuple[Kind, str, Fields]] = {
    "rnn_encdec_32": (RNN, "32 numbers", {"d_model": 32}),
    "rnn_encdec_64": (RNN, "64 numbers", {"d_model": 64}),
    "rnn_encdec_128": (RNN, "128 numbers", {"d_model": 128}),
    "rnn_encdec_256": (RNN, "256 numbers", {"d_model": 256}),
    "rnn_encdec_512": (RNN, "512 numbers", {"d_model": 512}),
    "rnn_encdec_both": (READER, "encoder of both directions", {"reads": "both"}),
    "rnn_encdec_pooled": (READER, "pooled encoder", {"reads": "pooled"}),
    "rnn_encdec_x2": (RNN | {"width": 2}, "2 × width", {}),
    "rnn_encdec_x4": (RNN | {"width": 4}, "4 × width", {}),
    "lstm_seq2seq_x2": (LSTM | {"width": 2}, "2 × width", {}),
    "lstm_seq2seq_x4": (LSTM | {"width": 4}, "4 × width", {}),
    "lstm_seq2seq_forward": (LSTM, "source not reversed", {"is_reversed": False}),
    "lstm_seq2seq_last": (LAST, "last vector", {"attention": "last"}),
    "lstm_seq2seq_last_fed": (LAST, "last vector, fed", FED | {"attention": "last"}),
    "lstm_seq2seq_dot": (ATTENDING, "dot", {"attention": "dot"}),
    "lstm_seq2seq_dot_fed": (ATTENDING, "dot, fed", FED | {"attention": "dot"}),
    "lstm_seq2seq_general": (ATTENDING, "general", {"attention": "general"}),
    "lstm_seq2seq_general_fed": (ATTENDING, "general, fed", FED | {"attention": "general"}),
    "lstm_seq2seq_additive": (ATTENDING, "additive", {"attention": "additive"}),
    "lstm_seq2seq_additive_fed": (ATTENDING, "additive, fed", FED | {"attention": "additive"}),
    "transformer_sinusoids": (SINUSOIDS, "sinusoids", {"positions": "sinusoids"}),
    "transformer_learned": (LEARNED, "learned positions", {"positions": "learned"}),
    "transformer_rotary": (ROTARY, "rotary positions", {"positions": "rotary"}),
    "transformer_alibi": (ALIBI, "linear biases", {"positions": "alibi"}),
    "transformer_none": (NONE, "no positions", {"positions": "none"}),
    "transformer_unscaled": (ABLATED, "scores not divided by √d", {"without": "scale"}),
    "transformer_cosine": (ABLATED, "cosine scores", {"without": "lengths"}),
    "transformer_unnormalised": (ABLATED, "weights not normalised", {"without": "normaliser"}),
    "transformer_no_residual": (ABLATED, "no residual connections", {"without": "residual"}),
    "transformer_no_feed_forward": (ABLATED, "no feed-forward layers", {"without": "feed_forward"}),
    "transformer_no_norm": (ABLATED, "no layer normalisation", {"without": "norm"}),
    "transformer_untied": (ABLATED, "output not tied", {"without": "tying"}),
    "bahdanau_dot": (DOT, "scaled dot product", {}),
    "bahdanau_heads": (HEADS, "several heads", {"n_heads": 4}),
    "bahdanau_tied": (TIED, "tied output", {"n_heads": 4}),
    "transformer_recurrent_1": (RECURRENT, "recurrent, 1 layer", {"n_layers": 1}),
    "transformer_recurrent": (RECURRENT, "recurrent", {}),
    "transformer_recurrent_decoder": (DECODER, "recurrent decoder", {}),
    "bahdanau_1": (POOLED, "1 vector", {"n_queries": 1}),
    "bahdanau_2": (POOLED, "2 vectors", {"n_queries": 2}),
    "bahdanau_4": (POOLED, "4 vectors", {"n_queries": 4}),
    "bahdanau_8": (POOLED, "8 vectors", {"n_queries": 8}),
    "bahdanau_16": (POOLED, "16 vectors", {"n_queries": 16}),
    "linear_attention_favor": (FAVOR, "FAVOR+", {}),
    "transformer_conv": (CONV, "convolution", {}),
    "gpt_conv": (GPT_CONV, "convolution", {}),
    "linear_attention_conv": (LINEAR, "convolution", {"d_conv": 3}),
    "gpt_unscaled": (GPT_WITHOUT, "scores not divided by √d", {"without": "scale"}),
    "gpt_no_residual": (GPT_WITHOUT, "no residual connections", {"without": "residual"}),
    "gpt_no_feed_forward": (GPT_WITHOUT, "no feed-forward layers", {"without": "feed_forward"}),
    "gpt_no_norm": (GPT_WITHOUT, "no layer normalisation", {"without": "norm"}),
    "gpt_postnorm": (GPT_POSTNORM, "normalised after each sublayer", {"without": "prenorm"}),
    "gpt_rms": (GPT_RMS, "RMSNorm", {"norm": "rms"}),
    "gpt_rotary": (GPT_ROTARY, "rotary positions", {"positions": "rotary"}),
    "gpt_swiglu": (GPT_SWIGLU, "SwiGLU", {"ff": "swiglu"}),
    "gpt_grouped": (GPT_GROUPED, "grouped queries", {"n_kv_heads": 2}),
    "gpt_2023": (GPT_2023, "parts of 2023", ALL_2023),
    "transformer_score_mask": (MISTAKEN, "scores × mask", {"mistake": "score_mask"}),
    "transformer_weight_mask": (MISTAKEN, "weights × mask", {"mistake": "weight_mask"}),
    "transformer_finite_mask": (MISTAKEN, "mask of -10", {"mistake": "finite_mask"}),
    "transformer_wrong_axis": (MISTAKEN, "softmax over the queries", {"mistake": "wrong_axis"}),
    "transformer_one_projection": (MISTAKEN, "W_q = W_k", {"mistake": "one_projection"}),
    "transformer_no_values": (MISTAKEN, "no W_v", {"mistake": "no_values"}),
    "transformer_no_output": (MISTAKEN, "no W_o", {"mistake": "no_output"}),
    "transformer_no_causal_mask": (MISTAKEN, "no causal mask", {"mistake": "no_causal_mask"}),
    "transformer_pads": (MISTAKEN, "pads attended to", {"mistake": "pads"}),
    "transformer_embeddings": (MISTAKEN, "attends to embeddings", {"mistake": "embeddings"}),
    "transformer_no_bos": (MISTAKEN, "BOS forgotten", {"mistake": "no_bos"}),
    "gated_deltanet_sum": (DELTA, "sum", {"is_gated": False, "is_delta": False}),
    "gated_deltanet_fade": (DELTA, "fade", {"is_delta": False}),
    "gated_deltanet_delta": (DELTA, "delta", {"is_gated": False}),
    "gated_deltanet_2": (DELTA, "β to 2", {"beta_max": 2.0}),
    "rnn_encdec_tanh": (ELMAN, "plain tanh units", {"unit": "tanh"}),
    "rnn_encdec_wide": (UNEQUAL, "encoder twice as wide", {"encoder_width": 2.0}),
    "rnn_encdec_narrow": (UNEQUAL, "encoder half as wide", {"encoder_width": 0.5}),
}
"""By name, in the order that gives them their colours: kind, end of the label, changed fields."""
