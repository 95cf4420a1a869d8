"""Search: models are called without the overhead of `nn.Module`."""

from typing import Any

import torch
from conftest import Pairs, Tiny
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import search, unroll


def test_direct_calls_compute_the_same(name: str, fresh: Tiny, pairs: Pairs) -> None:
    """A module with hooks stays as it is, and so do the model's weights and its mode."""
    model, (src, src_mask, tgt_in) = fresh(name, dropout=0.5), pairs
    before = {name: weight.clone() for name, weight in model.state_dict().items()}

    @torch.inference_mode()
    def write(model: Any) -> Tensor:
        return unroll(model, model.encode(src, src_mask), tgt_in)[0]

    expected = write(model)
    assert torch.equal(write(search.direct(model)), expected)
    [*_, linear] = (part for part in model.modules() if isinstance(part, nn.Linear))
    with linear.register_forward_hook(lambda *_: _[-1] + 1):
        assert_close(write(search.direct(model)), write(model))
        assert not torch.equal(write(model), expected)
    assert all(map(torch.equal, model.state_dict().values(), before.values()))
    assert not torch.equal(write(search.direct(model.train())), expected)
