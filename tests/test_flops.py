"""The count of floating-point operations, by hand."""

from torch import Tensor, nn

from seqmodels.comparison.runs import N_ROWS, flops_per_token
from seqmodels.data.batches import Example
from seqmodels.interface import SequenceModel
from seqmodels.models import build
from seqmodels.training.config import TrainConfig

V, D = 11, 8
CFG = TrainConfig(tokens=1, lr=1.0, batch_tokens=64)


class Linear(SequenceModel):
    """One matrix product per target token."""

    def __init__(self) -> None:
        super().__init__(None)
        self.embed, self.output = nn.Embedding(V, D), nn.Linear(D, V, bias=False)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        return self.output(self.embed(tgt_in))


def test_one_matrix_by_hand() -> None:
    """Keeps out a count of multiplications alone, of the forward pass alone, or of pads as free."""
    examples = [Example([4, 5], [6, 7, 2])] * 40
    model = Linear()
    assert flops_per_token(model, examples, CFG) == 3 * 2 * D * V
    assert model.output.weight.grad is None
    half = [Example([4, 5], [6, 7, 2], frozenset([0]))] * 40
    assert flops_per_token(model, half, CFG) == 3 * 2 * D * V * 3 / 2  # two of three are scored


def test_the_transformer_by_its_formula() -> None:
    """Keeps out fused attention that is not counted, on a CPU above all."""
    S, T, ff = 6, 5, 16
    sizes = {"d_model": D, "d_ff": ff, "n_heads": 2, "n_layers": 1, "dropout": 0.0}
    model = build("transformer", V, **sizes)
    examples = [Example([4] * S, [5] * T)] * (2 * N_ROWS)
    attention = 2 * S * S * D + 2 * T * T * D + 2 * T * S * D  # scores and mixtures
    projections = 4 * S * D * D + 4 * T * D * D + (2 * T + 2 * S) * D * D
    macs = attention + projections + 2 * (S + T) * D * ff + T * D * V
    counted = flops_per_token(model, examples, CFG)
    assert counted == 3 * 2 * macs / T


def test_memory_is_that_of_a_few_rows() -> None:
    """Keeps out a whole batch where training had to cut it, and rows of one length alone."""
    seen, model = [], Linear()
    model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    flops_per_token(model, [Example([4], [5] * (1 + i % 7)) for i in range(200)], CFG)
    assert max(seen) <= N_ROWS
