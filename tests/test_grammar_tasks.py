"""Tasks on the grammar's sentences: attention heads, the ladder to attention, and positions."""

import argparse
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import RESULTS, Pairs, Run, Tiny, V, check_folder
from fake_records import fake_record, scored
from matplotlib.colors import to_hex
from torch import Tensor, nn
from torch.testing import assert_close

from seqmodels import BOS, EOS, SequenceModel, build
from seqmodels.comparison.arm import count_parameters, model_sizes
from seqmodels.data.batches import Example, collate
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.evaluation.intervals import wilson_interval
from seqmodels.models import papers
from seqmodels.report import reading, style
from tasks.heads import __main__ as heads
from tasks.heads import figure as heads_figure
from tasks.heads import measure
from tasks.ladder import __main__ as ladder
from tasks.ladder import figure
from tasks.ladder.measure import accuracy_by_place
from tasks.positions import __main__ as positions

# -------------------------------------------------------------------------------------------- Heads
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
    """Keeps out the dearest head first, a head that comes back, and the loss that chose it."""
    model, choose, report = tiny("transformer"), EXAMPLES[:2], EXAMPLES[2:]
    whole, *rows = measure.prune_greedily(model, model, choose, report)
    assert whole == {"removed": 0, **measure.compute_loss(model, report, [])}
    everything = {(a.kind, a.layer, head): (a, head) for a, head in measure.heads_of(model)}
    keys = [(row["attention"], row["layer"], row["head"]) for row in rows]
    assert sorted(keys) == sorted(everything)
    for i, row in enumerate(rows):
        gone = [everything[key] for key in keys[:i]]
        tried = {key: [*gone, everything[key]] for key in keys[i:]}
        costs = {key: measure.compute_loss(model, choose, a)["nats"] for key, a in tried.items()}
        assert costs[keys[i]] == min(costs.values())
        assert row["nats"] == measure.compute_loss(model, report, tried[keys[i]])["nats"]
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


def test_entropies_offsets_and_links_are_known() -> None:
    """Keeps out bits, the NaN of 0 log 0, the next word for the previous one, and ends and pads."""
    weights = torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0, 0.5, 0]])
    assert_close(measure.entropy(weights), torch.tensor([0, math.log(4), math.log(2)]))
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]).view(1, 1, 3, 3)
    real = torch.tensor([[True, True, True]])
    expected = {-1: [0.1, 0.3], 0: [0.5, 0.2, 0.1], 1: [0.3, 0.7]}
    for offset, values in expected.items():
        found, valid = measure.weigh_offset(weights, real, offset)
        assert_close(found[0, 0][valid[0]], torch.tensor(values))
    _, valid = measure.weigh_offset(weights, torch.tensor([[True, True, False]]), 1)
    assert valid.tolist() == [[True, False, False]]
    found, valid = measure.weigh_offset(weights[:, :, 1:], real[:, 1:], -1)  # 2 of 3 tokens
    assert_close(found[0, 0][valid[0]], torch.tensor([0.3]))
    # no link to EOS, none of weights on pads or on the target
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
        # without pads
        seen = [measure.collect_weights(model, [attention.module], [e]) for e in EXAMPLES]
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


@pytest.mark.parametrize("size", ["smoke", "full"])
def test_gold_links_are_of_their_sentences(size: str) -> None:
    """Keeps out links of test for valid, tokens of another text, and one half for both."""
    few = heads.SIZES[size] | {"n_train": 200, "n_valid": 30}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(heads.SIZES, size, few)
        task = heads.make_task(argparse.Namespace(size=size, tokens=None))
    given = task.measure["heads"].keywords
    assert given["examples"] is task.valid
    drawn = heads.grammar.draw_corpus(seed=1, **few).valid
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


def words_at(axis: Any) -> list[str]:
    """Return the labels of an axis."""
    return [label.get_text() for label in axis.get_ticklabels()]


def some_heads(n_seeds: int) -> list[dict[str, Any]]:
    """Return committed records, with two heads of two layers alone: a figure has a map per head."""
    records = reading.load_records(RESULTS / "heads")[:n_seeds]
    for r in records:
        found = r["analyses"]
        for name in ("heads", "ablation", "maps"):
            rows = (
                row for row in found[name] if max(row.get("head") or 0, row.get("layer", 1)) < 3
            )
            found[name] = [*rows]
        found["pruning"] = found["pruning"][:6]
    return records


def test_heads_are_drawn_at_their_places() -> None:
    """Keeps out another head or attention, a cost that is a loss, heads removed for heads left."""
    group, looks = some_heads(2), heads_figure.KINDS
    *panels, pruning = heads_figure.draw_heads(group).axes
    for ax, analysis, keys in zip(
        panels, ("heads", "heads", "ablation"), (["entropy"], heads_figure.READINGS, ["nats"]),
        strict=True,
    ):  # fmt: skip
        expected = []
        for i, r in enumerate(group):
            for row in r["analyses"][analysis]:
                for key in (key for key in keys if key in row and "head" in row):
                    place = f"{row['attention']}\n{row['layer']}"
                    if key in heads_figure.READINGS:
                        place = f"{heads_figure.READINGS[key]}\nlayer {row['layer']}"
                    base = r["analyses"][analysis][0]["nats"] if key == "nats" else 0
                    colour = looks[row["attention"]].colour if row["head"] else style.INK
                    x = words_at(ax.xaxis).index(place) + (i + 0.5) / 2 / len(group) - 0.25
                    expected.append((colour, x, row[key] - base))
        found = [(line.get_color(), line.get_xdata(), line.get_ydata()[0]) for line in ax.lines]
        assert [colour for colour, *_ in found] == [colour for colour, *_ in expected]
        assert np.allclose([(np.mean(x), y) for _, x, y in found], [e[1:] for e in expected])
    rows, lines = group[0]["analyses"]["pruning"], pruning.lines
    assert [*lines[0].get_xdata()] == [*range(len(rows) - 1, -1, -1)]
    assert [*lines[0].get_ydata()] == [row["nats"] for row in rows]
    for left, row, mark in zip(range(len(rows) - 2, -1, -1), rows[1:], lines[1:], strict=False):
        assert mark.get_xydata().tolist() == [[left, row["nats"]]]
        assert mark.get_color() == looks[row["attention"]].colour
    assert lines[len(rows)].get_ydata()[0] == rows[0]["nats"] + heads_figure.NEARLY
    assert pruning.get_xlim() == (len(rows) - 0.5, -0.5)


def test_maps_of_heads_have_their_words_and_links() -> None:
    """Keeps out another head's weights, words of the other side, links a row off, a worse rate."""
    (r,) = some_heads(1)
    for name in ("heads", "maps"):
        r["analyses"][name] = [row for row in r["analyses"][name] if row["layer"] == 2]
    plot, (src, tgt) = heads_figure.draw_maps(r), (r["alignment"][side] for side in ("src", "tgt"))
    rows = {heads_figure.identify_head(row): row for row in r["analyses"]["heads"] if row["head"]}
    texts, previous = [text.get_text() for text in plot.texts], {}
    for ax, (head, row) in zip(plot.axes, rows.items(), strict=True):
        kind, layer, number = head
        weights = [
            [float(w) / 100 for w in line["weights"].split()]
            for line in r["analyses"]["maps"] if heads_figure.identify_head(line) == head
        ]  # fmt: skip
        read = src if kind == "encoder" else ["<bos>", *tgt]
        assert np.allclose(ax.collections[0].get_array(), weights[-len(read) :])
        assert words_at(ax.xaxis) == (["<bos>", *tgt] if kind == "decoder" else src)
        assert words_at(ax.yaxis) == ([""] * len(read) if kind in previous else read)
        previous = {kind}
        note = f"{layer}.{number}"
        if kind == "source":
            rates = row["aer_read"], row["aer_written"]
            note += f" · AER {min(rates):.0f} %"
            places = [
                (s + 0.06, t + (rates[0] <= rates[1]) + 0.06) for s, t in r["alignment"]["gold"]
            ]
            assert [square.get_xy() for square in ax.patches] == places
        else:
            name = max(("previous", "own", "next"), key=row.get)
            note += f" · {name} {100 * row[name]:.0f} %" if row[name] >= 0.5 else ""
        assert note in texts
    written = {i: axis for i, ax in enumerate(plot.axes) for axis in ax.child_axes}
    assert [words_at(ax.yaxis) for ax in written.values()] == [[*tgt, "<eos>"]] * len(written)
    assert [*written] == [len(plot.axes) - 1]


# --------------------------------------------------------------------------------------- The ladder
KINDS = ["last", "dot", "general", "additive"]
FED = [f"lstm_seq2seq_{kind}{fed}" for kind in KINDS for fed in ("", "_fed")]
NAMES = ["lstm_seq2seq", "lstm_seq2seq_forward", *FED]


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
    """Keeps out another score, the state before the update, and weights in reading order."""
    model = tiny(name, n_layers=1, is_reversed=is_reversed)
    src, tgt_in = torch.tensor([4, 9, 5, 6, end]), torch.tensor([BOS, 5, 8, 4])
    logits, weights = naive(model, src, tgt_in)
    given = src[None], torch.ones(1, 5, dtype=torch.bool), tgt_in[None]
    assert_close(model(*given)[0], logits, rtol=0, atol=1e-5)
    if "last" in name:
        assert model.src_attentions == []
    else:
        assert_close(model.align(*given)[0], weights, rtol=0, atol=1e-5)


def test_without_a_context_vector_it_is_the_chapter(tiny: Tiny, pairs: Pairs) -> None:
    """Keeps out a copied encoder or decoder that drifts from the published model."""
    published = tiny("lstm_seq2seq")
    ground = tiny("lstm_seq2seq_last", attention="none")
    ground.load_state_dict(published.state_dict())
    assert_close(ground(*pairs), published(*pairs))


class Fixed(SequenceModel):
    """Writes the same tokens whatever the source is."""

    def __init__(self, tokens: list[int]):
        super().__init__(None)
        self.logits = nn.Parameter(nn.functional.one_hot(torch.tensor(tokens), V).float())

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        """Return the logits of as many tokens as there are inputs."""
        return self.logits[: tgt_in.shape[1]].expand(len(src), -1, -1)


def test_places_are_counted_by_hand() -> None:
    """Keeps out pads that are counted, quarters of the batch's width, and one quarter for all."""
    examples = [Example([5], [4, 5, 6, 7, 8, 9, 10, 4]), Example([5], [4, 8]), Example([6], [7])]
    model = Fixed([4, 5, 6, 6, 8, 4, 4, 4])
    rows = accuracy_by_place(examples, model, model)
    # quarters of 8: right right | right wrong | right wrong | wrong right; of 2: right | wrong
    assert [row["n"] for row in rows] == [2 + 1 + 1, 2, 2 + 1, 2]
    assert [row["accuracy"] for row in rows] == pytest.approx([75, 50, 100 / 3, 50])


def test_seeds_widen_the_gain() -> None:
    """Keeps out an interval that forgets the seeds: with many words, Student's t of two each."""

    def gain(*shifts: float, n: int) -> list[float]:
        runs = {
            name: [{"analyses": {"places": [{"accuracy": mean + x, "n": n}]}} for x in shifts]
            for name, mean in ((figure.REVERSED, 81), (figure.FORWARD, 71))
        }
        return [end for (end,) in figure.compute_gains(runs)]

    value, low, high = gain(0, n=100)
    ends = [wilson_interval(mean / 100, 100) for mean in (81, 71)]
    assert (value, high - low) == (10, pytest.approx(100 * math.dist(*zip(*ends, strict=True))))
    half = 4.3027 * 2**0.5
    assert gain(-1, 1, n=10**9) == pytest.approx([10, 10 - half, 10 + half], rel=1e-4)


def test_biases_are_those_of_the_records() -> None:
    """Keeps out reversal taken for its lack, a bias for the other, and the loss of one bucket."""
    sizes = ((True, 0.0), (True, 2.0), (False, 0.0), (False, 2.0))
    records = []
    for seed, (is_reversed, bias) in product((1, 2, 3), sizes):
        name = "lstm_seq2seq" if is_reversed else "lstm_seq2seq_forward"
        one = fake_record(name, seed)
        one["model_config"] |= {"is_reversed": is_reversed, "forget_bias": bias}
        one["tests"][0]["overall"]["nats"]["value"] = seed + 10 * bias + 100 * is_reversed
        records.append(one)
    (drawn,) = figure.draw(records).values()
    for ax, offset in zip(drawn.axes, (0, None), strict=True):
        lines = [line for line in ax.lines if line.get_linestyle() != "None"]
        forward, reverse = (list(line.get_ydata()) for line in lines)
        if offset == 0:
            assert (forward, reverse) == ([2, 22], [102, 122])
        points = [line.get_ydata() for line in ax.lines if line.get_linestyle() == "None"]
        assert [len(values) for values in points] == [3] * 4
        assert forward + reverse == pytest.approx([values.mean() for values in points])


def test_the_ladder_runs(run: Run, tmp_path: Path) -> None:
    """Keeps out a rung that the harness cannot train, search, score, measure or draw."""
    names = ["lstm_seq2seq", "lstm_seq2seq_forward", "lstm_seq2seq_dot_fed"]
    assert run(ladder, "--models", *names, "--out", tmp_path) == 0
    records = check_folder(tmp_path, names)
    rungs = [("none", False), ("forward", False), ("dot", True)]
    assert [figure.identify_rung(r) for r in records] == rungs
    for r in records:
        (test,) = r["tests"]
        n_trained = sum(b["n"] for b in test["buckets"] if b["high"] <= test["max_train_length"])
        assert sum(row["n"] for row in r["analyses"]["places"]) > 3 * n_trained
    assert (tmp_path / "rungs.svg").exists()
    assert (tmp_path / "places.svg").exists()


@pytest.mark.parametrize("size", ["smoke", "full"])
def test_rungs_alone_differ(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a difference in parameters, rate or start that would pass for one of rungs."""
    monkeypatch.setitem(ladder.SIZES, size, ladder.SIZES[size] | {"n_train": 200, "n_valid": 10})
    task = ladder.make_task(argparse.Namespace(size=size, tokens=None, to="attention"))
    sizes = {name: model_sizes(name, task) for name in NAMES}
    counts = [count_parameters(build(name, **sizes[name])) for name in NAMES]
    assert max(counts) / min(counts) < 1.1
    for own in sizes.values():
        for switch in ("attention", "is_input_feeding", "is_reversed", "d_model"):
            own.pop(switch, None)
    assert len({str(own) for own in sizes.values()}) == 1
    assert [task.recipe(name) for name in NAMES] == [ladder.RECIPES[name] for name in NAMES]
    assert len({task.recipe(name).lr for name in NAMES}) == 1
    assert set(ladder.PARSER.parse_args(["--size", size]).models) == {*NAMES}


LAST, DOT, DOT_FED = "lstm_seq2seq_last", "lstm_seq2seq_dot", "lstm_seq2seq_dot_fed"
SCORES = {
    "lstm_seq2seq": [60.0, 20.0, 5.0], "lstm_seq2seq_forward": [50.0, 18.0, 4.0],
    LAST: [65.0, 31.0, 6.0], DOT: [90.0, 80.0, 40.0], DOT_FED: [95.0, 88.0, 60.0],
}  # fmt: skip


def climbed(shift: float = 0.0, seed: int = 1) -> list[dict[str, Any]]:
    """Make a record per rung: 11–20 words are the longest trained of three buckets."""
    records = scored({m: [v + shift for v in s] for m, s in SCORES.items()}, trained=20, half=2.0)
    for r in records:
        r["seed"], r["model_config"] = seed, dict(papers()[r["model"]].sizes)
    return records


def test_a_bar_is_its_rung_and_bucket() -> None:
    """Keeps out a bar of another bucket or rung, and one seed drawn for the mean."""
    left, right = figure.draw_rungs([*climbed(), *climbed(2.0, 2)]).axes
    at = {"lstm_seq2seq_forward": 0, "lstm_seq2seq": 1, LAST: 2, DOT: 2.8, DOT_FED: 3.2}
    for ax, place in ((left, 1), (right, 2)):
        expected = {
            (style.choose_looks([m])[m].colour, x): SCORES[m][place] + 1 for m, x in at.items()
        }
        bars = {}
        for bar in ax.patches:
            colour = to_hex(bar.get_facecolor()).upper()
            bars[colour, round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
        assert bars == pytest.approx(expected)
    assert "11–20" in left.get_title("left")
    assert "21–30" in right.get_title("left")


# ---------------------------------------------------------------------------------------- Positions
POSITIONS = ["sinusoids", "learned", "rotary", "none"]
BY_POSITION = [f"transformer_{kind}" for kind in POSITIONS]


@pytest.mark.parametrize("size", ["smoke", "laptop", "full"])
def test_positions_alone_differ(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a difference in size, rate or layers, and a test of lengths trained on."""
    few = positions.SIZES[size] | {"n_train": 200, "n_valid": 10}
    monkeypatch.setitem(positions.SIZES, size, few)
    task = positions.make_task(argparse.Namespace(size=size, tokens=None))
    sizes = {name: model_sizes(name, task) for name in BY_POSITION}
    counts = [count_parameters(build(name, **sizes[name])) for name in BY_POSITION]
    assert max(counts) / min(counts) < 1.1
    assert [own.pop("positions") for own in sizes.values()] == POSITIONS
    assert len({own.pop("d_model") for own in sizes.values()}) <= 2  # a table of positions is small
    assert len({str(own) for own in sizes.values()}) == 1
    assert len({task.recipe(name).lr for name in BY_POSITION}) == 1
    assert positions.PARSER.parse_args(["--size", size]).models == BY_POSITION
    (test,) = task.tests
    longest = max(max(2 * len(e.src) + 10, len(e.tgt)) for e in test.examples)
    n_positions = {task.recipe(name).sizes["n_positions"] for name in BY_POSITION}
    assert longest <= min(n_positions)
    if size != "smoke":
        assert min(n_positions) < 1.3 * longest
        assert test.max_train_length == 20
        assert sum(low > 20 for low, _ in test.buckets) == 8
        inside = [sum(low <= x <= high for x in test.x) for low, high in test.buckets]
        assert min(inside) >= 15
        assert sum(inside) == len(test.x) == 6 * positions.SIZES[size]["per_bucket"]
