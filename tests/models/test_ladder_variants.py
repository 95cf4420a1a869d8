"""The LSTM with attention of Luong et al., rung by rung."""

import pytest
import torch
from conftest import Tiny
from torch import Tensor
from torch.testing import assert_close

from seqmodels import BOS, EOS, SequenceModel

KINDS = ["last", "dot", "general", "additive"]
FED = [f"lstm_seq2seq_{kind}{fed}" for kind in KINDS for fed in ("", "_fed")]


@torch.no_grad()
def naive(model: SequenceModel, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits (T, V) and weights (T, S) of one source, word by word, for one layer."""
    cfg, D = model.config, model.config.d_model
    (read,), (write,) = model.encoder.layers, model.decoder.layers
    n = len(src) - int(src[-1] == EOS)
    places_read = [*(range(n - 1, -1, -1) if cfg.is_reversed else range(n)), *range(n, len(src))]
    h, c, memory = torch.zeros(1, D).double(), torch.zeros(1, D).double(), {}
    for s in places_read:
        h, c = read.unit(read.W(model.embed(src[s : s + 1])), h, c)
        memory[s] = h[0]
    last, fed = memory[places_read[-1]], torch.zeros(1, D).double()
    logits, weights = [], []
    for y in tgt_in:
        e = model.embed(y.view(1))
        h, c = write.unit(write.W(torch.cat([e, fed], 1) if cfg.is_input_feeding else e), h, c)
        if cfg.attention == "last":
            context = last
        else:
            a, places = model.attention, range(len(src))
            if cfg.attention == "dot":
                scores = [h[0] @ memory[s] for s in places]
            elif cfg.attention == "general":
                scores = [h[0] @ (a.W_a.weight @ memory[s]) for s in places]
            else:
                W = torch.cat([a.W_a.weight, a.U_a.weight], 1)  # the paper's one matrix
                both = [torch.cat([h[0], memory[s]]) for s in places]
                scores = [a.v_a.weight[0] @ torch.tanh(W @ pair) for pair in both]
            alpha = torch.stack(scores).exp()
            alpha = alpha / alpha.sum()  #                                                 eq. (7)
            context = sum(a * memory[s] for s, a in enumerate(alpha))
            weights.append(alpha)
        fed = torch.tanh(model.W_c.weight @ torch.cat([context, h[0]])).unsqueeze(0)  #    eq. (5)
        logits.append(model.output(fed)[0])
    return torch.stack(logits), torch.stack(weights) if weights else torch.empty(0)


@pytest.mark.parametrize("name", FED)
@pytest.mark.parametrize(("end", "is_reversed"), [(EOS, True), (7, True), (EOS, False)])
def test_a_rung_is_its_equations(name: str, end: int, is_reversed: bool, tiny: Tiny) -> None:
    model = tiny(name, n_layers=1, is_reversed=is_reversed)
    src, tgt_in = torch.tensor([4, 9, 5, 6, end]), torch.tensor([BOS, 5, 8, 4])
    logits, weights = naive(model, src, tgt_in)
    given = src[None], torch.ones(1, 5, dtype=torch.bool), tgt_in[None]
    assert_close(model(*given)[0], logits, rtol=0, atol=1e-5)
    if "last" in name:
        assert model.cross_attentions == []
    else:
        assert_close(model.align(*given)[0], weights, rtol=0, atol=1e-5)
