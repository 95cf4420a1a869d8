"""The variants of the models: one listed name a class, and the names in committed records.

A variant that has the class of its model has another value of a field of its Config, as
`--vary FIELD=VALUE` gives it. Records and presets know such values by OLD_NAMES; lists of models
leave them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Value = int | float | str | bool | None
"""The type of a value of a model's Config or of TrainConfig."""
Fields = Mapping[str, Value]
"""Names of such fields, and their values."""
Memory = Literal["vector", "fixed", "grows"]


def variant(of: str, class_path: str, **others: object) -> dict[str, Any]:
    """Return what a class's `ModelInfo` has of its own; the class is in a module beside this one.

    `others` has the label of a class whose name no record has, and the memory if it is not that of
    the model.
    """
    return {"variant_of": of, "class_path": f"seqmodels.models.variants.{class_path}", **others}


STEPS = "bahdanau_to_transformer"
CLASSES: dict[str, dict[str, Any]] = {
    "rnn_encdec_fresh": variant("rnn_encdec", "fresh:FreshDecoder"),
    "rnn_encdec_start": variant("rnn_encdec", "start:StartOnly"),
    "lstm_seq2seq_last": variant("lstm_seq2seq", "ladder:Ladder"),
    "lstm_seq2seq_dot": variant("lstm_seq2seq", "ladder:Ladder", memory="grows", attends=True),
    "bahdanau_dot": variant("bahdanau", f"{STEPS}:DotBahdanau"),
    "bahdanau_heads": variant("bahdanau", f"{STEPS}:HeadsBahdanau"),
    "bahdanau_tied": variant("bahdanau", f"{STEPS}:TiedBahdanau"),
    "bahdanau_pooled": variant(
        "bahdanau", "pooled:PooledBahdanau", memory="fixed", label="Bahdanau, pooled"
    ),
    "transformer_recurrent": variant("transformer", f"{STEPS}:RecurrentTransformer"),
    "transformer_recurrent_decoder": variant("transformer", f"{STEPS}:RecurrentDecoder"),
    "transformer_ablated": variant(
        "transformer", "ablated:AblatedTransformer", label="Transformer"
    ),
    "transformer_positions": variant(
        "transformer", "positions:TransformerPositions", label="Transformer"
    ),
    "transformer_mistaken": variant(
        "transformer", "mistaken:MistakenTransformer", label="Transformer", group="mistaken"
    ),
    "gpt_parts": variant("gpt", "gpt_to_2023:GPTTo2023", label="GPT"),
    "gpt_2023": variant("gpt", "gpt_to_2023:GPTTo2023"),
    "mamba2_hybrid": variant("mamba2", "hybrid:MambaAndAttention", memory="grows", attends=True),
    "gated_deltanet_hybrid": variant(
        "gated_deltanet", "hybrid:DeltaNetAndAttention", memory="grows", attends=True
    ),
}  # fmt: skip
"""The variants that lists show: each class, or published model, by its name."""
GONE = {
    "rnn_encdec_both": variant("rnn_encdec", "encoders:OtherEncoder"),
    "rnn_encdec_units": variant("rnn_encdec", "units:RNNWithUnits"),
    "linear_attention_favor": variant("linear_attention", "favor:Favor"),
    "transformer_conv": variant("transformer", "convolved:ConvolvedTransformer"),
    "gpt_conv": variant("gpt", "convolved:ConvolvedGPT"),
}
"""Classes of earlier commits, whose records can still be read."""
POSITIONS = {
    "sinusoids": "sinusoids", "learned": "learned positions", "rotary": "rotary positions",
    "alibi": "linear biases", "none": "no positions",
}  # fmt: skip
WITHOUT = {
    "unscaled": ("scale", "scores not divided by √d"), "cosine": ("lengths", "cosine scores"),
    "unnormalised": ("normaliser", "weights not normalised"),
    "no_residual": ("residual", "no residual connections"),
    "no_feed_forward": ("feed_forward", "no feed-forward layers"),
    "no_norm": ("norm", "no layer normalisation"), "untied": ("tying", "output not tied"),
    "postnorm": ("prenorm", "normalised after each sublayer"),
}  # fmt: skip
CONSTANTS = {
    "over_d": ("root", "scores divided by d"),
    "small": ("multiplication", "embeddings not × √d"),
    "small_untied": ("multiplication and tying", "not tied, not × √d"),
    "concatenated": ("addition", "positions concatenated"),
    "one_matrix": ("factors", "one matrix for W_q W_kᵀ"),
    "sliced": ("mixing", "a head sees its slice"),
}  # fmt: skip
MISTAKES = {
    "score_mask": "scores × mask", "weight_mask": "weights × mask", "finite_mask": "mask of -10",
    "wrong_axis": "softmax over the queries", "one_projection": "W_q = W_k",
    "no_values": "no W_v", "no_output": "no W_o", "no_causal_mask": "no causal mask",
    "pads": "pads attended to", "embeddings": "attends to embeddings", "no_bos": "BOS forgotten",
}  # fmt: skip
ALL_2023: Fields = {"norm": "rms", "positions": "rotary", "ff": "swiglu", "n_kv_heads": 2}

OLD_NAMES: dict[str, tuple[str, str, Fields]] = {
    **{f"rnn_encdec_{d}": ("rnn_encdec", f"{d} numbers", {"d_model": d})
       for d in (32, 64, 128, 256, 512)},
    "rnn_encdec_both": ("rnn_encdec_both", "encoder of both directions", {"reads": "both"}),
    "rnn_encdec_pooled": ("rnn_encdec_both", "pooled encoder", {"reads": "pooled"}),
    "rnn_encdec_attention": ("rnn_encdec_both", "attention's encoder", {"reads": "attention"}),
    "rnn_encdec_fresh": ("rnn_encdec_fresh", "fresh decoder", {}),
    "rnn_encdec_start": ("rnn_encdec_start", "vector read once", {}),
    "lstm_seq2seq_forward": ("lstm_seq2seq", "source not reversed", {"is_reversed": False}),
    **{f"lstm_seq2seq_{name}{fed and '_fed'}": (
        f"lstm_seq2seq_{'last' if name == 'last' else 'dot'}",
        ("last vector" if name == "last" else name) + (fed and ", fed"),
        {"attention": name, **({"is_input_feeding": True} if fed else {})})
       for name in ("last", "dot", "general", "additive") for fed in ("", ", fed")},
    **{f"transformer_{kind}": ("transformer_positions", label, {"positions": kind})
       for kind, label in POSITIONS.items()},
    **{f"transformer_{name}": ("transformer_ablated", label, {"without": part})
       for name, (part, label) in WITHOUT.items() if name != "postnorm"},
    "bahdanau_dot": ("bahdanau_dot", "scaled dot product", {}),
    "bahdanau_heads": ("bahdanau_heads", "several heads", {"n_heads": 4}),
    "bahdanau_tied": ("bahdanau_tied", "tied output", {"n_heads": 4}),
    "transformer_recurrent_1": ("transformer_recurrent", "recurrent, 1 layer", {"n_layers": 1}),
    "transformer_recurrent": ("transformer_recurrent", "recurrent", {}),
    "transformer_recurrent_decoder": ("transformer_recurrent_decoder", "recurrent decoder", {}),
    **{f"bahdanau_{n}": ("bahdanau_pooled", f"{n} vector{'s' * (n > 1)}", {"n_queries": n})
       for n in (1, 2, 4, 8, 16)},
    "linear_attention_favor": ("linear_attention_favor", "FAVOR+", {}),
    "transformer_conv": ("transformer_conv", "convolution", {}),
    "gpt_conv": ("gpt_conv", "convolution", {}),
    "linear_attention_conv": ("linear_attention", "convolution", {"d_conv": 3}),
    **{f"gpt_{name}": ("gpt_parts", label, {"without": part})
       for name, (part, label) in WITHOUT.items()
       if name not in ("cosine", "unnormalised", "untied")},
    "gpt_rms": ("gpt_parts", "RMSNorm", {"norm": "rms"}),
    "gpt_rotary": ("gpt_parts", "rotary positions", {"positions": "rotary"}),
    "gpt_swiglu": ("gpt_parts", "SwiGLU", {"ff": "swiglu"}),
    "gpt_grouped": ("gpt_parts", "grouped queries", {"n_kv_heads": 2}),
    "gpt_2023": ("gpt_2023", "parts of 2023", ALL_2023),
    "gpt_alibi": ("gpt_parts", "linear biases", {"positions": "alibi"}),
    "gpt_none": ("gpt_parts", "no positions", {"positions": "none"}),
    "gpt_prefix": ("gpt_parts", "source read both ways", {"is_prefix": True}),
    **{f"transformer_{name}": ("transformer_mistaken", label, {"mistake": name})
       for name, label in MISTAKES.items()},
    "gated_deltanet_sum": ("gated_deltanet", "adds up", {"is_gated": False, "is_delta": False}),
    "gated_deltanet_fade": ("gated_deltanet", "forgets", {"is_delta": False}),
    "gated_deltanet_delta": ("gated_deltanet", "corrects", {"is_gated": False}),
    "gated_deltanet_2": ("gated_deltanet", "β to 2", {"beta_max": 2.0}),
    **{f"gated_deltanet_{place}": ("gated_deltanet_hybrid", f"β to 2, attention {place}",
                                   {"attention": place, "beta_max": 2.0})
       for place in ("first", "last")},
    "mamba2_last": ("mamba2_hybrid", "attention last", {"attention": "last"}),
    "rnn_encdec_tanh": ("rnn_encdec_units", "plain tanh units", {"unit": "tanh"}),
    "rnn_encdec_wide": ("rnn_encdec_units", "encoder twice as wide", {"encoder_width": 2.0}),
    "rnn_encdec_narrow": ("rnn_encdec_units", "encoder half as wide", {"encoder_width": 0.5}),
    **{f"transformer_{name}": ("transformer_ablated", label, {"without": part})
       for name, (part, label) in CONSTANTS.items()},
    "gpt_large": ("gpt_parts", "residual outputs not smaller", {"without": "shrinking"}),
}  # fmt: skip
"""The names that records have, in the order that gives them their colours: a model or class, the
end of the label, and the fields of its Config that differ."""
