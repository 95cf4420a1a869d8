"""Where each model drops units."""

from typing import Any

import pytest
import torch
from conftest import Pairs, Tiny
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from seqmodels.models.cache import attend

P = 0.37
S, T = 5, 6


class Sites:
    """Every place where a model drops units, in its order; all but one hand on what they got."""

    def __init__(self, model: torch.nn.Module, patch: pytest.MonkeyPatch):
        self.model = model
        patch.setattr(F, "dropout", self.dropout)
        for name, module in model.named_modules():
            if not isinstance(module, torch.nn.Dropout):
                module.register_forward_hook(
                    lambda _, x, y, name=name: self.modules.append((name, x[0], y))
                )

    def run(self, pairs: Pairs, only: int | None = None) -> Tensor:
        """Return the logits where one site alone drops."""
        self.only = only
        self.seen: list[tuple[Tensor, float]] = []
        self.modules: list[tuple[str, Any, Any]] = []
        with torch.no_grad():  # the fused kernel shows no weights
            return self.model(*pairs)

    def dropout(self, x: Tensor, p: float = 0.5, training: bool = True, *_: Any) -> Tensor:
        """Stand in for torch's."""
        if not training or p == 0.0:
            return x
        self.seen.append((x, p))
        if self.only != len(self.seen) - 1:
            return x
        return x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5)

    def names(self) -> list[str]:
        found = []
        for x, p in self.seen:
            assert p == P
            if x.dim() == 4:
                assert_close(x.sum(-1), torch.ones_like(x.sum(-1)))
                found.append(f"weights {x.shape[2]} × {x.shape[3]}")
            else:
                makes = [f"out of {name}" for name, _, tensor in self.modules if tensor is x]
                gets = [f"into {name}" for name, tensor, _ in self.modules if tensor is x]
                found.append([*makes, *gets, "nowhere"][0])
        return found


def layers(*sites: str) -> list[str]:
    """Write the sites of two layers, {} for the number of each."""
    return [site.format(i) for i in range(2) for site in sites]


def transformer(first: str) -> list[str]:
    """Write section 5.4's sites, and the attention weights that the authors' code drops as well."""
    coded = layers(f"weights {S} × {S}", "out of encoder.{}.self_attention.W_o",
                   "out of encoder.{}.ff.2")  # fmt: skip
    decoded = layers(f"weights {T} × {T}", "out of decoder.{}.self_attention.W_o",
                     f"weights {T} × {S}", "out of decoder.{}.src_attention.W_o",
                     "out of decoder.{}.ff.2")  # fmt: skip
    return [f"into decoder.0.{first}", f"into encoder.0.{first}", *coded, *decoded]


BLOCKS = layers("out of decoder.{}.self_attention.W_o", "out of decoder.{}.ff.2")
PLACES = {
    "rnn_encdec": ["out of embed", "out of embed", "into output.W_o"],
    "bahdanau": ["out of embed", "out of embed", "into output.W_o"],
    "lstm_seq2seq": ["out of embed", "into encoder.layers.1.W", "nowhere",
                     "out of embed", "into decoder.layers.1.W", "into output"],
    "transformer": transformer("self_attention.W_k"),
    "prenorm": transformer("self_residual.norm"),
    "gpt": ["into decoder.0.norm_1",
            f"weights {S + T} × {S + T}", "out of decoder.0.self_attention.W_o",
            "out of decoder.0.ff.2", f"weights {T} × {S + T}",
            "out of decoder.1.self_attention.W_o", "out of decoder.1.ff.2"],
    "linear_attention": ["into decoder.0.norm_1", *BLOCKS],
    "gated_deltanet": ["out of embedding", *BLOCKS],
    "mamba2": ["out of embedding", *layers("out of decoder.{}.self_attention.W_o")],
}  # fmt: skip
"""Where each paper's model drops units: what a module says, or what it gets. The embeddings of
source and target come first, sums with their positions where there are any; `nowhere` is the top
of the LSTM's encoder, which no one reads."""


@pytest.mark.parametrize("which", PLACES)
def test_dropout_acts_where_the_papers_have_it(
    which: str, tiny: Tiny, pairs: Pairs, monkeypatch: Any
) -> None:
    is_prenorm = {"is_prenorm": True} if which == "prenorm" else {}
    model = tiny("transformer" if is_prenorm else which, dropout=P, **is_prenorm)
    sites, wanted = Sites(model, monkeypatch), PLACES[which]
    model.train()
    whole = sites.run(pairs)
    assert sites.names() == wanted
    for i, place in enumerate(wanted):
        is_changed = (sites.run(pairs, only=i) - whole).abs().max() > 1e-6
        assert is_changed == (place != "nowhere"), place
    model.eval()
    assert_close(sites.run(pairs, only=0), whole)
    assert not sites.seen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_attentions_drop_the_same_share(dtype: torch.dtype) -> None:
    q, k = torch.randn(2, 8, 4, 25, 6).to(dtype)
    unit_vectors, seen = torch.eye(25, dtype=dtype).expand(8, 4, -1, -1), torch.ones(25).bool()
    weights = attend(q, k, unit_vectors, seen, P)
    assert (weights == 0).float().mean().item() == pytest.approx(P, abs=0.03)
    assert weights.float().sum(-1).mean().item() == pytest.approx(1.0, abs=0.03)
