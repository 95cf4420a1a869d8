"""The interface of the models."""

import torch
from torch import nn
from torch.testing import assert_close

from seqmodels.interface import mute_heads


def test_a_head_is_multiplied_by_its_number_in_the_mask() -> None:
    one, two, x = nn.Linear(6, 4), nn.Linear(6, 5), torch.randn(2, 3, 6)
    before = one(x), two(x)
    with mute_heads([one, two], torch.tensor([[1, 0, 0.5], [0, 1, 1]])):
        muted = one(x), two(x)
    for layer, found, columns in (
        (one, muted[0], torch.tensor([1, 1, 0, 0, 0.5, 0.5])),
        (two, muted[1], torch.tensor([0, 0, 1, 1, 1, 1.0])),
    ):
        assert_close(found, x @ (layer.weight * columns).T + layer.bias)
    assert_close((one(x), two(x)), before)
