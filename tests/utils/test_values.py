"""The values of fields: their bounds, however they are given."""

import math
import re
from dataclasses import fields
from typing import Any

import pytest

import seqmodels
from seqmodels.models import MODELS
from seqmodels.training.config import TrainConfig
from seqmodels.utils.values import check_fields

LEAST_1 = {1: True, 0: False, -1: False}
SHARE = {0.0: True, 0.75: True, 1.0: False, -0.25: False, math.nan: False}
POSITIVE = {0.25: True, 1e9: True, 0.0: False, -0.25: False, math.inf: False, math.nan: False}
FROM_0 = POSITIVE | {0.0: True}
SWITCH: dict[Any, bool] = {True: True, 2: False, "yes": False}
ANY = {-0.5: True, 0.0: True, math.inf: False, math.nan: False}
BOUNDS: dict[str, dict[Any, bool]] = {
    **dict.fromkeys(("tokens", "batch_tokens", "n_validations"), LEAST_1),
    **dict.fromkeys(("lr", "muon_lr", "max_grad_norm"), POSITIVE),
    **dict.fromkeys(("warmup", "beta_2", "weight_decay", "label_smoothing", "dropout"), SHARE),
    **dict.fromkeys(("source_loss", "init_std", "std_align", "init_range"), FROM_0),
    **dict.fromkeys(("v_align", "forget_bias"), ANY),
    **dict.fromkeys(("vocab_size", "d_model", "d_embed", "d_maxout", "d_align", "d_ff"), LEAST_1),
    **dict.fromkeys(("n_layers", "n_heads", "n_positions", "d_conv", "d_state"), LEAST_1),
    **dict.fromkeys(("d_k", "d_v"), LEAST_1 | {None: True}),
    **dict.fromkeys(("is_prenorm", "is_reversed", "is_gated", "is_delta"), SWITCH),
    "seed": {0: True, -1: False},
    **{"optimizer": {"muon": True, "sgd": False}, "loss": {"squared": True, "hinge": False}},
    "precision": {"bfloat16": True, "float16": False},
    "beta_max": POSITIVE,
}
OWNERS = [TrainConfig, *(model.config_type for model in MODELS.values())]


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.__module__.split(".")[-1])
def test_every_field_has_its_bounds(owner: type) -> None:
    given = {"tokens": 9, "lr": 0.5} if owner is TrainConfig else {"vocab_size": 9}
    for field in fields(owner):
        for value, is_right in BOUNDS[field.name].items():
            config = owner(**given)
            object.__setattr__(config, field.name, value)
            if is_right:
                check_fields(config)
            else:
                with pytest.raises(ValueError, match=re.escape(f"{field.name}={value!r}: ")):
                    check_fields(config)


def test_a_wrong_value_is_refused_before_anything_is_built() -> None:
    for name, value in (("dropout", 1.0), ("d_model", 0), ("n_heads", 0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            seqmodels.build("transformer", 9, **{name: value})
    for name, value in (("lr", -0.5), ("max_grad_norm", 0.0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            TrainConfig(**{"tokens": 9, "lr": 0.5, name: value})
