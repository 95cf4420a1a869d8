"""A wrong value of a field is refused before anything is built."""

import pytest

import seqmodels
from seqmodels.training.config import TrainConfig


def test_a_wrong_value_is_refused_before_anything_is_built() -> None:
    for name, value in (("dropout", 1.0), ("d_model", 0), ("n_heads", 0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            seqmodels.build("transformer", 9, **{name: value})
    for name, value in (("lr", -0.5), ("max_grad_norm", 0.0)):
        with pytest.raises(ValueError, match=f"^{name}={value}: "):
            TrainConfig(**{"tokens": 9, "lr": 0.5, name: value})
