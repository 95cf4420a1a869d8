"""Attention heads: what is measured of each, pruning, the task, and its figures."""

import argparse
import math
from pathlib import Path

import pytest
import torch
from checks import check_folder
from conftest import Run, Tiny
from torch.testing import assert_close

from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.interface import EOS
from tasks.heads import __main__ as task_file
from tasks.heads import measure

EXAMPLES = [
    Example([5, 6, 7, EOS], [8, 9, 10, EOS]),
    Example([9, 8, 6, 5, 7, EOS], [4, 7, EOS]),
    Example([6, EOS], [10, 5, 8, 4, EOS]),
]
GOLD = [[(0, 0), (1, 2), (2, 1)], [(3, 1)], [(0, 0), (0, 1)]]

with_heads = pytest.mark.parametrize("name", ["transformer", "gpt", "linear_attention"])


@with_heads
def test_the_loss_without_each_head(name: str, tiny: Tiny) -> None:
    """Keeps out the loss without another head, or with one of an attention that is all removed."""
    model = tiny(name)
    whole, *rows = measure.remove_each(model, model, EXAMPLES)
    assert len(rows) == sum(1 + model.config.n_heads for _ in measure.list_attentions(model))
    for row in [whole | {"head": None}, *rows]:
        twin = tiny(name)
        twin.load_state_dict(model.state_dict())
        gone = [] if row["head"] is None else [row["head"]] if row["head"] else [1, 2]
        for head in gone:  # set the columns of W_o that merge it to zero, for good
            stack = twin.encoder if row["attention"] == "encoder" else twin.decoder
            part = "src_attention" if row["attention"] == "source" else "self_attention"
            weight = getattr(stack[row["layer"] - 1], part).W_o.weight
            K = weight.shape[1] // model.config.n_heads
            weight.data[:, (head - 1) * K : head * K] = 0
        scored = score_teacher_forced(twin, EXAMPLES)
        n = sum(r["n_tokens"] for r in scored)
        assert row["nats"] == pytest.approx(sum(r["nats"] for r in scored) / n)
        assert row["accuracy"] == pytest.approx(100 * sum(r["n_correct"] for r in scored) / n)
        assert row["removed"] == len(gone)


def test_pruning_removes_the_cheapest_head(tiny: Tiny) -> None:
    """Keeps out the dearest head first, a head that comes back, and a loss on what was chosen by.

    Every choice is compared with the loss without each other head that was left.
    """
    model, choose, report = tiny("transformer"), EXAMPLES[:2], EXAMPLES[2:]
    whole, *rows = measure.prune_greedily(model, model, choose, report)
    assert whole == {"removed": 0, **measure.compute_loss(model, report, [])}
    everything = {(a.kind, a.layer, head): (a, head) for a, head in measure.heads_of(model)}
    keys = [(row["attention"], row["layer"], row["head"]) for row in rows]
    assert sorted(keys) == sorted(everything)
    for i, row in enumerate(rows):
        gone = [everything[key] for key in keys[:i]]
        costs = {
            key: measure.compute_loss(model, choose, [*gone, everything[key]])["nats"]
            for key in keys[i:]
        }
        assert costs[keys[i]] == min(costs.values())
        assert (
            row["nats"] == measure.compute_loss(model, report, [*gone, everything[keys[i]]])["nats"]
        )
        assert row["removed"] == i + 1


@with_heads
def test_every_parameter_is_counted_once(name: str, tiny: Tiny) -> None:
    """Keeps out norms and embeddings among the feed-forward layers, and what is counted twice."""
    model = tiny(name)
    parts = {row["part"]: row["n"] for row in measure.count_parameters(model, model)}
    assert sum(parts.values()) == sum(p.numel() for p in model.parameters())
    D = model.config.d_model
    biases = 0 if name == "transformer" else 4 * D
    assert parts["attention"] == len(measure.list_attentions(model)) * (4 * D * D + biases)
    tokens = model.embedding.weight.numel()
    assert parts["embeddings"] == tokens + (0 if name == "transformer" else 32 * D)


def test_a_model_without_heads_has_no_rows(tiny: Tiny) -> None:
    """Keeps out a crash at the end of training for --models bahdanau."""
    model = tiny("bahdanau")
    assert measure.describe_heads(model, model, EXAMPLES, GOLD) == []
    assert measure.map_heads(model, model, EXAMPLES[0]) == []
    assert measure.remove_each(model, model, EXAMPLES) == []
    assert measure.prune_greedily(model, model, EXAMPLES, EXAMPLES) == []
    assert measure.count_parameters(model, model) == []


def test_entropies_are_known() -> None:
    """Keeps out bits for nats, a sign, and the NaN of 0 log 0."""
    weights = torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0, 0.5, 0]])
    assert_close(measure.entropy(weights), torch.tensor([0, math.log(4), math.log(2)]))


def test_offsets_are_known() -> None:
    """Keeps out the next word for the previous one, a neighbour beyond the text, and pads."""
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]).view(1, 1, 3, 3)
    real = torch.tensor([[True, True, True]])
    expected = {-1: [0.1, 0.3], 0: [0.5, 0.2, 0.1], 1: [0.3, 0.7]}
    for offset, values in expected.items():
        found, valid = measure.weigh_offset(weights, real, offset)
        assert_close(found[0, 0][valid[0]], torch.tensor(values))
    _, valid = measure.weigh_offset(weights, torch.tensor([[True, True, False]]), 1)
    assert valid.tolist() == [[True, False, False]]
    found, valid = measure.weigh_offset(
        weights[:, :, 1:], real[:, 1:], -1
    )  # the last 2 of 3 tokens
    assert_close(found[0, 0][valid[0]], torch.tensor([0.3]))


def test_links_are_read_off() -> None:
    """Keeps out a link to EOS, the row of another word, and weights on pads or on the target."""
    src = [5, 6, EOS]
    rows = [[0.6, 0.3, 0.1, 0], [0.2, 0.1, 0.7, 0], [0.1, 0.2, 0, 0.7], [0.3, 0.2, 0.1, 0.4]]
    weights = torch.tensor(rows)  # BOS y1 y2 y3; the last key is not of the source
    assert measure.links_of(weights, src, 3, 0) == {(0, 0), (1, 2)}
    assert measure.links_of(weights, src, 3, 1) == {(1, 1), (0, 2)}


@with_heads
def test_rows_describe_their_heads(name: str, tiny: Tiny) -> None:
    """Keeps out means over pads, the head next to it, and the mean of the heads as a head."""
    model = tiny(name)
    rows = measure.describe_heads(model, model, EXAMPLES, GOLD)
    H = model.config.n_heads
    assert len(rows) == (1 + H) * len(measure.list_attentions(model))
    for row in rows:
        place = row["attention"], row["layer"]
        (attention,) = (a for a in measure.list_attentions(model) if (a.kind, a.layer) == place)
        seen = [
            measure.collect_weights(model, [attention.module], [e]) for e in EXAMPLES
        ]  # without pads
        single = [weights[0] for one in seen for _, _, (weights,) in one]
        is_encoder = row["attention"] == "encoder"
        own = [len(e.src if is_encoder else e.tgt) for e in EXAMPLES]
        w = [x.mean(0) if not row["head"] else x[row["head"] - 1] for x in single]
        w = [x[-n:] for x, n in zip(w, own, strict=True)]
        nats = torch.cat([measure.entropy(x) for x in w]).mean()
        assert row["entropy"] == pytest.approx(nats.item())
        if row["attention"] != "source":
            before = [x[n, x.shape[1] - len(x) + n - 1] for x in w for n in range(1, len(x))]
            assert row["previous"] == pytest.approx(torch.stack(before).mean().item())
        assert ("aer_read" in row) == (row["attention"] == "source" or name != "transformer")
        for key, shift in (("aer_written", 0), ("aer_read", 1)):
            if key in row:
                found = [measure.links_of(x, e.src, len(e.tgt) - 1, shift)
                         for x, e in zip(w, EXAMPLES, strict=True)]  # fmt: skip
                hits = sum(len(a & set(g)) for a, g in zip(found, GOLD, strict=True))
                n_links = sum(map(len, [*found, *GOLD]))
                assert row[key] == pytest.approx(100 * (1 - 2 * hits / n_links))


@pytest.mark.slow
def test_heads_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out analyses that fail at the end of training, or that no figure shows."""
    assert run(task_file, "--out", tmp_path) == 0
    (made,) = check_folder(tmp_path, ["transformer"])
    rows = made["analyses"]
    assert {*rows} == {"heads", "maps", "ablation", "pruning", "parameters"}
    assert rows["pruning"][-1]["removed"] == 24
    assert sum(row["n"] for row in rows["parameters"]) == made["n_parameters"]
    for name in ("heads", "head-maps"):
        assert (tmp_path / f"{name}-transformer.svg").exists()


@pytest.mark.parametrize("size", ["smoke", "full"])
def test_gold_links_are_of_their_sentences(size: str) -> None:
    """Keeps out links of test for valid, tokens that are not the grammar's, and one half for both.

    A pruned head is chosen on other sentences than those on which its loss is reported.
    """
    few = task_file.SIZES[size] | {"n_train": 200, "n_valid": 30}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(task_file.SIZES, size, few)
        task = task_file.make_task(argparse.Namespace(size=size, tokens=None))
    given = task.measure["heads"].keywords
    assert given["examples"] is task.valid
    drawn = task_file.grammar.draw_corpus(seed=1, **few).valid
    for example, links, sentence in zip(task.valid, given["gold"], drawn, strict=True):
        assert task.tokenizer.tokens(example.src)[:-1] == [*sentence.en]
        assert task.tokenizer.tokens(example.tgt)[:-1] == [*sentence.de]
        assert links == sentence.links
    halves = task.measure["pruning"].keywords
    assert not {*map(str, halves["choose"])} & {*map(str, halves["report"])}
    assert len(halves["choose"]) + len(halves["report"]) == len(task.valid)
    example, links = task.alignment_example
    assert task.measure["maps"].keywords["example"] is example
    assert all(s < len(example.src) - 1 and t < len(example.tgt) - 1 for s, t in links)
    assert len(collate([example]).src[0]) <= 12  # the maps are small
