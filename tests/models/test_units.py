"""Plain tanh units, and an encoder of another width."""

import torch
from conftest import Pairs, Tiny
from torch.testing import assert_close


def test_plain_units_are_those_of_torch(tiny: Tiny, pairs: Pairs) -> None:
    src, _, _ = pairs
    model = tiny("rnn_encdec_tanh")
    d, encoder = model.config.d_model, model.encoder
    rnn = torch.nn.RNN(model.config.d_embed, d, batch_first=True).double()
    weights = {
        "weight_ih_l0": encoder.W.weight, "bias_ih_l0": encoder.W.bias,
        "weight_hh_l0": encoder.unit.U.weight, "bias_hh_l0": torch.zeros(d),
    }  # fmt: skip
    rnn.load_state_dict(weights)
    read, _ = rnn(model.embed(src[:, :3]))
    first_three = (torch.arange(src.shape[1]) < 3).expand(src.shape)
    assert_close(encoder(model.embed(src), first_three), read[:, -1])


def test_the_decoder_adds_the_vector_inside_a_plain_unit(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, tgt_in = pairs
    model = tiny("rnn_encdec_tanh")
    state = model.encode(src, src_mask)
    _, after = model.step(tgt_in[:, 0], state)
    inner = model.W(model.embed(tgt_in[:, 0])) + state.c @ model.C.weight.T
    assert_close(after.s, torch.tanh(inner + state.s @ model.unit.U.weight.T))


def test_an_encoder_has_its_own_width(tiny: Tiny, pairs: Pairs) -> None:
    src, src_mask, _ = pairs
    sizes = {name: tiny(f"rnn_encdec_{name}").encoder.d_model for name in ("wide", "narrow")}
    d = tiny("rnn_encdec").config.d_model
    assert sizes == {"wide": 2 * d, "narrow": d // 2}
    assert tiny("rnn_encdec_wide").encode(src, src_mask).c.shape == (len(src), d)


def test_equal_widths_and_gates_are_the_chapter(tiny: Tiny, pairs: Pairs) -> None:
    published, model = tiny("rnn_encdec"), tiny("rnn_encdec_wide", encoder_width=1.0)
    model.load_state_dict(published.state_dict())
    assert_close(model(*pairs), published(*pairs))
