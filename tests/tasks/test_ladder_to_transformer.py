"""The models from Bahdanau's to the Transformer, and what the ladder measures of them."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from conftest import Run, Tiny, check_folder
from fake_records import as_records, fake_record
from torch import Tensor
from torch.testing import assert_close

from seqmodels import BOS, EOS, build
from seqmodels.experiments.specs import make_spec, model_sizes
from seqmodels.training.optimizers import hidden_matrices
from tasks.ladder import __main__ as ladder
from tasks.ladder import figure
from tasks.ladder.measure import count_sequential_steps
from tasks.synthetic import pairs
from tasks.translation import __main__ as translation

RUNGS = ladder.TO_TRANSFORMER
SRC, TGT_IN = torch.tensor([4, 9, 5, 6, EOS]), torch.tensor([BOS, 5, 8, 4])
GIVEN = SRC[None], torch.ones(1, 5, dtype=torch.bool), TGT_IN[None]
CHANGES = {  # parts that a rung loses, parts that it gains, changed sizes
    "bahdanau_dot": ("attention.v_a", "", {}),
    "bahdanau_heads": ("", "attention.W_v", {"n_heads": 4}),
    "bahdanau_tied": ("output.W_o", "", {}),
    "transformer_recurrent": ("", "", {"n_layers": 2}),
    "transformer_recurrent_decoder": ("encoder.recurrence", "encoder.self_attention", {}),
    "transformer": ("decoder.C decoder.W decoder.W_s decoder.unit", "decoder.self_attention", {}),
}


def test_each_rung_changes_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are the chapters, and Muon trains every matrix but tables."""
    for sizes, size in ((pairs.SIZES, "laptop"), (translation.SIZES, "full")):
        monkeypatch.setitem(sizes, size, {"n_train": 100, "n_valid": 5})
    args = ladder.PARSER.parse_args(["--to", "transformer"])
    assert (args.models, args.out) == (RUNGS, Path("runs/ladder-transformer-laptop"))
    climbed = ladder.make_task(args)
    plain = translation.make_task(
        translation.PARSER.parse_args(["--size", "full", "--tokens", "800000"])
    )
    for field in ("data", "training", "n_parameters", "train", "valid", "beam", "recipes"):
        assert getattr(climbed, field) == getattr(plain, field)
    lengths = {(len(e.src), len(e.tgt)) for e in climbed.measure["gradients"].keywords["examples"]}
    assert lengths == {tuple(climbed.measure["sequential_steps"].keywords.values())}
    assert climbed.contrasts == [(rung, before) for before, rung in pairwise(RUNGS)]
    sizes, parts = {}, {}
    for name in RUNGS:
        sizes[name] = model_sizes(make_spec(name), replace(climbed, n_parameters=400_000))
        torch.manual_seed(3)
        model = build(name, **sizes[name])
        del sizes[name]["d_model"]
        named = {re.sub(r"\.\d+", "", path): p for path, p in model.named_parameters()}
        parts[name] = {".".join(path.split(".")[:2]) for path in named}
        muon, tables = {*map(id, hidden_matrices(model))}, ("embed", "attention.v_a", "output.W_o")
        others = [path for path, p in named.items() if p.ndim == 2 and id(p) not in muon]
        assert all(path.startswith(tables) for path in others)
        if name in ("bahdanau", "transformer"):
            torch.manual_seed(3)
            chapter = build(
                name, **model_sizes(make_spec(name), replace(plain, n_parameters=400_000))
            )
            assert torch.equal(chapter(*GIVEN), model(*GIVEN))
            assert all(map(torch.equal, chapter.parameters(), model.parameters()))
    for before, name in pairwise(RUNGS):
        if name in CHANGES:
            new = dict(sizes[name].items() - sizes[before].items())
            lost, gained = sorted(parts[before] - parts[name]), sorted(parts[name] - parts[before])
            assert (" ".join(lost), " ".join(gained), new) == CHANGES[name]


def attend(q: Tensor, k: Tensor, v: Tensor, n_heads: int) -> Tensor:
    """Return softmax(q · k / √d) v of each head, side by side."""
    heads = zip(*(x.chunk(n_heads, -1) for x in (q, k, v)), strict=True)
    return torch.cat([(q @ k.T / k.shape[1] ** 0.5).softmax(-1) @ v for q, k, v in heads], -1)


@pytest.mark.parametrize("name", RUNGS[1:4])
def test_dot_products_word_by_word(name: str, tiny: Tiny) -> None:
    model, is_tied, H = tiny(name), name == "bahdanau_tied", 1 + (name != "bahdanau_dot")
    a, out, logits = model.attention, model.output, list[Tensor]()
    x, y = (model.embed.weight[text] * 12 ** (is_tied / 2) for text in (SRC, TGT_IN))
    h = model.encoder(x[None], GIVEN[1])[0]
    s = torch.tanh(model.W_s(h[:1, 16:]))
    for e in y.split(1):
        c = attend(a.W_a(s), a.U_a(h), a.W_v(h) if H > 1 else h, H)
        s = model.unit(model.W(e) + model.C(c), s)
        maxout = (out.U_o(s) + out.V_o(e) + out.C_o(c)).unflatten(-1, (-1, 2)).amax(-1)
        logits.append(maxout @ model.embed.weight.T if is_tied else out.W_o(maxout))
    assert_close(model(*GIVEN)[0], torch.cat(logits))


@pytest.mark.parametrize("name", RUNGS[4:7])
def test_recurrence_word_by_word(name: str, tiny: Tiny) -> None:
    model = tiny(name)
    x, y = (model.embedding(text) * 16**0.5 for text in (SRC, TGT_IN))
    for layer in model.encoder if name != RUNGS[6] else ():
        x = layer.self_residual.norm(x + layer.recurrence(x[None], GIVEN[1])[0])
        x = layer.ff_residual.norm(x + layer.ff(x))
    if name == RUNGS[6]:
        whole, x = tiny("transformer"), model.annotate(SRC[None], GIVEN[1][:, None, None])[0]
        whole.load_state_dict(model.state_dict(), strict=False)
        assert_close(*(m.encode(*GIVEN[:2]).memory.tensors for m in (model, whole)))
    for layer in model.decoder:
        states, contexts, a = [torch.tanh(layer.W_s(x[:1]))], [], layer.src_attention
        for e in y.split(1):
            contexts.append(a.W_o(attend(a.W_q(states[-1]), a.W_k(x), a.W_v(x), 2)))
            states.append(layer.unit(layer.W(e) + layer.C(contexts[-1]), states[-1]))
        y = layer.self_residual.norm(y + torch.cat(states[1:]))
        y = layer.src_residual.norm(y + torch.cat(contexts))
        y = layer.ff_residual.norm(y + layer.ff(y))
    assert_close(model(*GIVEN)[0], y @ model.embedding.weight.T)


def test_the_ladder_counts_steps_and_gradients(tiny: Tiny) -> None:
    rungs = map(tiny, RUNGS)  # of two layers
    steps = [count_sequential_steps(model, model, 7, 5)[0]["steps"] for model in rungs]
    assert steps == [12, 12, 12, 12, 24, 24, 12, 4]
    ends = (("before", 2), ("before", 90), ("before", 8), ("after", 6), ("after", 90), ("after", 3))
    spread = (1.75, 0.25, 0.5, 1.5, 1.0, 1.0, 1.25, 0.75)  # their mean is 1
    rows = [{"when": when, "median": m * x} for when, m in ends for x in spread]
    made = fake_record("bahdanau", 1) | {"analyses": {"gradients": rows}}
    first, *_ = made["curve"]
    times = ((10, 5.0), (30, 7.0), (40, 10.0))
    made["curve"] = [first | {"step": step, "seconds": seconds} for step, seconds in times]
    (r,) = as_records([made])
    assert [figure.gradient_ratio(r, when) for when in ("before", "after")] == [4.0, 0.5]
    assert figure.seconds_per_step(r) == 0.1


def test_the_way_to_the_transformer_runs(run: Run, tmp_path: Path) -> None:
    assert ladder.PARSER.parse_args([]).models == ladder.MODELS
    assert run(ladder, "--to", "transformer", "--models", RUNGS[5], "--out", tmp_path) == 0
    assert [r.contrasts for r in check_folder(tmp_path, [RUNGS[5]])] == [[RUNGS[4]]]
    assert [path.name for path in tmp_path.glob("rungs*.svg")] == ["rungs-to-transformer.svg"]
