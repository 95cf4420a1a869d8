"""Presets of translation: their models, data and figures."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Tiny
from fake_records import as_records, fake_record, scored
from matplotlib.colors import to_hex
from torch import Tensor
from torch.testing import assert_close

from seqmodels import BOS, EOS, build
from seqmodels.data.batches import Example, collate
from seqmodels.experiments import launch, sweep
from seqmodels.experiments.sweep import count_parameters, list_runs, make_spec, model_sizes
from seqmodels.interface import Batch
from seqmodels.models import paper_of
from seqmodels.models.cache import tensors_of
from seqmodels.training.optimizers import hidden_matrices
from tasks import flags
from tasks.synthetic import pairs
from tasks.translation import __main__ as translation
from tasks.translation import constants, figure, presets

RUNGS = presets.TO_TRANSFORMER
SRC, TGT_IN = torch.tensor([4, 9, 5, 6, EOS]), torch.tensor([BOS, 5, 8, 4])
GIVEN = SRC[None], torch.ones(1, 5, dtype=torch.bool), TGT_IN[None]


def test_both_ends_are_the_chapters(monkeypatch: pytest.MonkeyPatch) -> None:
    """And Muon trains every matrix but tables."""
    for sizes, size in ((pairs.SIZES, "laptop"), (translation.SIZES, "full")):
        monkeypatch.setitem(sizes, size, {"n_train": 100, "n_valid": 5, "per_bucket": 10})
    climbed = translation.make_task(translation.PARSER.parse_args(["--preset", "to-transformer"]))
    plain = translation.make_task(
        translation.PARSER.parse_args(["--size", "full", "--tokens", "800000"])
    )
    for field in ("data", "training", "n_parameters", "train", "valid", "beam", "recipes"):
        assert getattr(climbed, field) == getattr(plain, field)
    assert climbed.contrasts == [(rung, before) for before, rung in pairwise(RUNGS)]
    told, (test,) = climbed.measure["sequential_steps"].keywords, climbed.tests
    trained = [e for e, n in zip(test.examples, test.x, strict=True) if n <= test.max_train_length]
    longest = max(trained, key=lambda e: len(e.src))
    assert told == {"n_source": len(longest.src), "n_target": len(longest.tgt)}
    sizes = {}
    for name in RUNGS:
        sizes[name] = model_sizes(make_spec(name), replace(climbed, n_parameters=400_000))
        torch.manual_seed(3)
        model = build(name, **sizes[name])
        named = {re.sub(r"\.\d+", "", path): p for path, p in model.named_parameters()}
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
        whole = tiny("transformer")
        whole.load_state_dict(model.state_dict(), strict=False)
        x = model.embed(SRC[None], torch.arange(len(SRC)))
        for layer in model.encoder:
            x = layer(x, GIVEN[1][:, None, None])
        x = x[0]
        assert_close(*(tensors_of([m.encode(*GIVEN[:2]).memory]) for m in (model, whole)))
    for layer in model.decoder:
        states, contexts, a = [torch.tanh(layer.W_s(x[:1]))], [], layer.src_attention
        for e in y.split(1):
            contexts.append(a.W_o(attend(a.W_q(states[-1]), a.W_k(x), a.W_v(x), 2)))
            states.append(layer.unit(layer.W(e) + layer.C(contexts[-1]), states[-1]))
        y = layer.self_residual.norm(y + torch.cat(states[1:]))
        y = layer.src_residual.norm(y + torch.cat(contexts))
        y = layer.ff_residual.norm(y + layer.ff(y))
    assert_close(model(*GIVEN)[0], y @ model.embedding.weight.T)


def test_sequential_steps_and_seconds_are_counted(tiny: Tiny) -> None:
    rungs = map(tiny, RUNGS)  # of two layers
    steps = [presets.count_sequential_steps(model, model, 7, 5)[0]["steps"] for model in rungs]
    assert steps == [12, 12, 12, 12, 24, 24, 12, 4]
    made = fake_record("bahdanau", 1)
    first, *_ = made["curve"]
    times = ((10, 5.0), (30, 7.0), (40, 10.0))
    made["curve"] = [first | {"step": step, "seconds": seconds} for step, seconds in times]
    (r,) = as_records([made])
    assert figure.seconds_per_step(r) == 0.1


SHORT = [
    ("positions", presets.POSITIONS, {"positions"}),
    ("ladder", presets.LADDER, {"attention", "is_input_feeding", "is_reversed"}),
]
"""Presets, their models, and the fields in which they differ, besides their widths."""


@pytest.mark.parametrize("size", ["laptop", "full"])
@pytest.mark.parametrize(("preset", "models", "switches"), SHORT)
def test_short_sentences(
    preset: str, models: list[str], switches: set[str], size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models of one size differ in their switches alone; half of the test is beyond training."""
    monkeypatch.setitem(presets.SIZES, size, {"n_train": 100, "n_valid": 5, "max_train": 20})
    tested = presets.TESTED[preset]
    monkeypatch.setitem(tested, size, (tested[size][0], tested[size][1] // 10))
    args = translation.PARSER.parse_args(["--preset", preset, "--size", size])
    task, specs = translation.make_task(args), [*map(make_spec, models)]
    sizes = [model_sizes(spec, task) for spec in specs]
    counts = [count_parameters(spec.build(own)) for spec, own in zip(specs, sizes, strict=True)]
    assert max(counts) / min(counts) < 1.1
    shared = [{k: own[k] for k in own.keys() - switches - {"d_model"}} for own in sizes]
    assert all(own == shared[0] for own in shared)
    (test,) = task.tests
    longest, per_bucket = tested[size]
    assert (test.max_train_length, max(test.x), len(test.x)) == (
        20, longest, longest // 10 * per_bucket
    )  # fmt: skip
    assert min(sum(low <= x <= high for x in test.x) for low, high in test.buckets[: longest // 5])
    n_positions = sizes[0].get("n_positions", 1_000)
    assert max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples) <= n_positions


def test_parts_have_their_own_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(task: Any, options: Any, **_: object) -> None:
        specs.append([run.spec for run in list_runs(task, options, Path(), "cpu")])
        assert task.training["tokens"] == 15_000
        assert max(task.tests[0].x) == task.tests[0].max_train_length

    specs: list[list[Any]] = []
    monkeypatch.setitem(
        pairs.SIZES, "smoke", pairs.SIZES["smoke"] | {"n_train": 99, "per_bucket": 10}
    )
    monkeypatch.setattr(launch, "compare", note)
    monkeypatch.setattr(sweep, "fit_width", lambda *_: 64)
    gpt = ["--preset", "gpt-parts"]
    for given in (["--preset", "parts"], ["--preset", "parts", "--models", "transformer"],
                  gpt, [*gpt, "--models", "gpt", "gpt_rms"]):  # fmt: skip
        flags.run(translation.PARSER, translation.make_task, ["--size", "smoke", *given])
    assert [len(own) for own in specs] == [8 + 3, 1, 12 + 2, 2]
    assert all("gpt" in spec.lineage for spec in specs[2])


LAST, DOT, DOT_FED = "lstm_seq2seq_last", "lstm_seq2seq_dot", "lstm_seq2seq_dot_fed"
BLEU = {
    "lstm_seq2seq": [60.0, 20.0, 5.0], "lstm_seq2seq_forward": [50.0, 18.0, 4.0],
    LAST: [65.0, 31.0, 6.0], DOT: [90.0, 80.0, 40.0], DOT_FED: [95.0, 88.0, 60.0],
}  # fmt: skip


def test_a_bar_is_its_rung_and_bucket() -> None:
    records = []
    for seed, shift in ((1, 0.0), (2, 2.0)):
        means = {m: [v + shift for v in s] for m, s in BLEU.items()}
        for r in scored(means, trained=20, half=2.0):
            r["seed"], r["model_config"] = seed, dict(paper_of(r["model"]).sizes)
            records.append(r)
    left, right = figure.draw_rungs(as_records(records)).axes
    at = {"lstm_seq2seq_forward": 0, "lstm_seq2seq": 1, LAST: 2, DOT: 2.8, DOT_FED: 3.2}
    for ax, place in ((left, 1), (right, 2)):
        expected = {(figure.FED[m == DOT_FED].colour, x): BLEU[m][place] + 1 for m, x in at.items()}
        bars = {}
        for bar in ax.patches:
            colour = to_hex(bar.get_facecolor()).upper()
            bars[colour, round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
        assert bars == pytest.approx(expected)
    ends = [ax.get_title().partition(" at ")[2] for ax in (left, right)]
    assert ends == ["11–20 words", "21–30 words, longer than trained"]


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_gradients_of_scores_are_those_of_the_loss(tiny: Tiny, name: str) -> None:
    """As seen when one score of each layer is moved, whatever else attends."""
    model = tiny(name)
    batch = Batch(*GIVEN, torch.tensor([[5, 8, 4, EOS]]))
    found = constants.score_gradients(model, batch)
    attending = [m for m in model.modules() if hasattr(m, "attention_weights") and m is not model]
    assert len(found) == len(attending) == (6 if name == "transformer" else 2)
    query, key = (2, 3) if name == "transformer" else (7, 4)
    for module, (weights, gradients) in zip(attending, found, strict=True):
        if weights[0, 1, query, key] == 0:  # in a decoder of 4 tokens, the future
            continue
        losses = []
        for step in (1e-5, -1e-5):
            moved = torch.zeros_like(weights)
            moved[0, 1, query, key] = step

            def watch(*args: Tensor, of: Any = module, moved: Tensor = moved) -> Tensor:
                return (type(of).attention_weights(of, *args).log() + moved).softmax(-1)

            module.attention_weights = watch
            loss = torch.nn.functional.cross_entropy(model(*batch[:3])[0], batch.tgt_out[0])
            losses.append(float(loss.detach()))
            del module.attention_weights
        expected = (losses[0] - losses[1]) / 2e-5
        assert float(gradients[0, 1, query, key]) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_hidden_scores_do_not_count(tiny: Tiny) -> None:
    """A median of what a target token sees, and the mean of each one's largest weight."""
    start, end = tiny("gpt"), tiny("gpt_rms")
    examples = [Example([5, 6, EOS], [7, 8, 9, EOS]), Example([4, EOS], [6, EOS])]
    rows = constants.measure_scores(end, start, examples)
    for model, row in zip((start, end), rows, strict=True):
        largest, sizes = list[float](), list[float]()
        for example in examples:
            for weights, gradients in constants.score_gradients(model, collate([example])):
                largest += [max(query) for head in weights[0].tolist() for query in head]
                seen = torch.ones_like(weights[0, 0]).tril().bool()
                sizes += gradients[0][:, seen].abs().flatten().tolist()
        assert row["largest"] == pytest.approx(sum(largest) / len(largest))
        assert row["median"] == pytest.approx(sorted(sizes)[(len(sizes) - 1) // 2])
    assert [row["when"] for row in rows] == ["start", "end"]


def test_tokens_lie_where_positions_do_or_beside_them(tiny: Tiny) -> None:
    start, end = tiny("gpt"), tiny("gpt")
    for model in (start, end):
        model.positions.weight.data.zero_()
        model.positions.weight.data[:4, 2:4] = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
        model.embedding.weight.data[:, 2:4] = 0.0
    end.embedding.weight.data[:, 4:] = 0.0
    end.embedding.weight.data[:, 2] = 3 * end.embedding.weight.data[:, 0]
    end.embedding.weight.data[:, 1] = 0.0
    end.embedding.weight.data[:, 3] = 7.0  # of all tokens: no variance
    rows = constants.measure_overlap(end, start, 4)
    assert [row["directions"] for row in rows] == [2, 2]
    assert [row["tokens"] for row in rows] == pytest.approx([0.0, 0.9], abs=1e-6)
    assert rows[0]["chance"] == 2 / 16
    model, other = (tiny(f"transformer{kind}").float() for kind in ("", "_concatenated"))
    assert [row["directions"] for row in constants.measure_overlap(model, model, 2)] == [1, 1]
    assert constants.measure_overlap(other, other, 2) == []
