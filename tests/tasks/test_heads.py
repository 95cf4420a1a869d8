"""What heads look for, and the words that change without one."""

import random
from collections import Counter
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROOT, Tiny
from fake_records import as_records, fake_record
from torch import Tensor, nn
from torch.testing import assert_close
from toys import planted_gpt

from seqmodels import SequenceModel, build
from seqmodels.data.batches import collate
from seqmodels.data.splits import Pair
from seqmodels.data.tokenizers import Words
from seqmodels.utils import files
from tasks.heads import figure, measure, pairs, two_heads
from tasks.heads.__main__ import MEASURES
from tasks.synthetic import changes, grammar, lexicon
from tasks.synthetic.pairs import encode_pairs
from tasks.synthetic.trees import NP, VP, Clause, Relative, Tags, parse

WORD = {word.en[0]: word for word in (*lexicon.NOUNS, *lexicon.VERBS)}
OLD = next(adjective for adjective in lexicon.ADJECTIVES["a"] if adjective.en == "old")
DOG = NP(WORD["dog"], "the", relative=Relative(Clause(None, VP(WORD["run"]))))
PARSE = parse([Clause(DOG, VP(WORD["see"], (NP(WORD["cat"], "a", (OLD,)),), ("must",)))])
ATTENTIONS = ("encoder", "decoder", "source")
PARSES = [PARSE, *(grammar.draw_unseen(random.Random(n), n, set()) for n in (7, 9))]
PAIRS = [Pair(p.sentence.en_text, p.sentence.de_text) for p in PARSES]
WORDS = Words.train([text for pair in PAIRS for text in pair[:2]])
SAMPLE = measure.Sample(PARSES, encode_pairs(PAIRS, WORDS), WORDS)


def test_words_depend_on_their_heads() -> None:
    assert PARSE.sentence.en_text == "The dog that runs must see an old cat."
    assert PARSE.sentence.de_text == "Der Hund, der läuft, muss eine alte Katze sehen."
    assert PARSE.en.heads == (1, 4, 1, -1, -1, -1, 8, 8, 5, -1)
    assert PARSE.de.heads == (1, 6, -1, 1, -1, -1, -1, 9, 9, 10, -1, -1)
    assert [PARSE.de.roles[i] for i in (0, 1, 9)] == ["", "subject", "object"]
    assert PARSE.de.kinds[1:5] == ("noun", "comma", "relative pronoun", "verb")


def test_pairs_are_named() -> None:
    source, reads, writes = (
        {*pairs.pair_sentence(attention, PARSE)[0]} for attention in ATTENTIONS
    )
    assert {("article → noun", 6, 8), ("noun → article", 8, 6), ("adjective → noun", 7, 8),
            ("noun → verb", 1, 4), ("verb → subject", 4, 1), ("noun → verb", 8, 5),
            ("article → other noun", 0, 8), ("next", 8, 9), ("previous", 9, 8),
            ("end of sentence", 0, 10)} <= source  # fmt: skip
    assert ("verb → subject", 5, 8) not in source
    assert {("noun → article", 10, 8), ("own", 0, 0), ("start of sentence", 5, 0)} <= reads
    assert all(key <= query for _, query, key in reads)
    assert not pairs.make_grid("decoder", PARSES).visible[:, 3, 4:].any()
    assert {(pairs.WRITTEN, 7, 8), ("translation of the word written", 7, 6),
            ("translation of the word read", 8, 6)} <= writes  # fmt: skip
    kinds = ("article", "noun", "verb") * 2 + ("article", "noun")
    tags = Tags(kinds, ("",) * 8, (1, -1, -1, 4, -1, -1, 7, -1))
    named = pairs.pair_words(["The", "cat", "saw", "the", "dog", "see", "a", "girl"], tags)
    found = [(name == pairs.CLOSEST, *places) for name, *places in named if "the”" in name]
    assert found == [(is_near, i, j) for i, near in ((1, 0), (4, 3), (7, 3)) for j in (0, 3)
                     for is_near in [j == near]]  # fmt: skip


def test_shares_and_explained_variance() -> None:
    grid = pairs.make_grid("encoder", PARSES)
    effects = [torch.randn(40)[grid.by_offset], torch.randn(900)[grid.by_kinds]]
    scores = torch.stack([*effects, sum(effects), torch.randn(grid.visible.shape)], 1).double()
    w = scores.masked_fill(~grid.visible.unsqueeze(1), -torch.inf).softmax(-1).nan_to_num()
    found = {key: np.round(values) for key, values in measure.explain_scores(w, grid).items()}
    assert [found["offset"][0], found["kinds"][1], *found["both"][:3]] == [100] * 5
    assert max(found["offset"][1], found["kinds"][0], found["both"][3], found["kinds"][2]) < 95
    flat = (grid.visible / grid.visible.sum(-1, keepdim=True).clamp_min(1)).double()
    shares = measure.list_shares((0.9 * grid.pairs["previous"] + 0.1 * flat).unsqueeze(1), grid)
    share, by_offset, by_kind = (values.item() for values in shares["previous"].values())
    assert (share, by_offset) == (pytest.approx(90.8, abs=0.5),) * 2
    assert 5 < by_kind < 30
    assert shares["next"]["share"].item() < 1.2


def test_changed_words_are_counted_by_kind() -> None:
    words = ["Der", "Hund", "sah", "die", "alte", "Katze", "."]
    for text, expected in {
        "Die Hund sah die alte Katze .": {"ending": 1},
        "Hund sah die alte Katze .": {"omission": 1},
        "Der Hund die alte Katze sah .": {"order": 1},
        "Der Wolf sahen die alten Katze .": {"choice": 1, "ending": 2},
        "Der Hund sah sehr die alte alte Katze .": {"addition": 2},
    }.items():
        assert changes.classify_changes(words, text.split()) == Counter(expected)
        assert changes.classify_changes(text.split(), [])["omission"] == len(text.split())
    right = [[*p.sentence.de] for p in PARSES]
    fewer = [right[0][:-1], *right[1:]]
    for whole, other, n_exact, kind in (
        (fewer, right, 3, "addition"),
        (right, fewer, 2, "omission"),
    ):
        found = measure.compare_translations(SAMPLE, whole, other)
        assert (found["exact"], found["changed"], found[kind]) == (n_exact, 1, 1)


def test_heads_are_measured_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Muting equals zero columns of W_o; a planted head is found, and its weights are drawn."""
    torch.manual_seed(2)
    sizes = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_layers": 2}
    model = build("transformer", WORDS.vocab_size, **sizes).eval()
    for p in model.parameters():
        nn.init.normal_(p)
    whole, *muted = measure.mute_each(model, model, SAMPLE)
    assert (len(muted), whole["changed"], whole["n"]) == (12, 0, 3)
    intact = measure.translate(model, SAMPLE)
    for kind in ATTENTIONS:
        own = (row for row in muted if row["attention"] == kind)
        row = max(own, key=lambda row: row["changed"])
        twin = deepcopy(model)
        stack = twin.encoder if row["attention"] == "encoder" else twin.decoder
        part = "src_attention" if row["attention"] == "source" else "self_attention"
        columns = slice(4 * row["head"] - 4, 4 * row["head"])
        getattr(stack[row["layer"] - 1], part).W_o.weight.data[:, columns] = 0
        changed = measure.compare_translations(SAMPLE, intact, measure.translate(twin, SAMPLE))
        assert row.items() >= changed.items()
        assert row["changed"]
    real, start = measure.collect_weights, deepcopy(model)
    own = model.attention_weights(*collate(SAMPLE.examples)[:3]).flatten(1, 2)
    assert_close(real(model, SAMPLE)["source"].float(), own, rtol=0, atol=1e-5)

    def plant(given: SequenceModel, sample: measure.Sample) -> dict[str, Tensor]:
        weights = {kind: w.clone() for kind, w in real(given, sample).items()}
        for kind, name in pairs.NOUN_OF.items() if given is model else ():
            if kind not in weights:
                continue
            grid, heads = pairs.make_grid(kind, PARSES), weights[kind]
            near = grid.pairs[name] & (grid.offset.abs() != 2)
            heads[:, 2] = torch.where(near.any(-1, keepdim=True), near.double(), heads[:, 2])
        return weights

    monkeypatch.setattr(measure, "collect_weights", plant)
    others = {name: f(model, start, SAMPLE) for name, f in MEASURES.items() if name != "muting"}
    analyses = others | {"muting": [whole, *muted]}
    (r,) = as_records([fake_record("transformer", 1) | {"analyses": analyses}])
    for row in r.analyses["article"]:
        place = {"attention": row["attention"], "layer": 2, "head": 1}
        (same,) = figure.rows_of(r, "muting", **place)
        same = {key: same[key] for key in ("exact", "changed", *changes.CHANGES)}
        assert row.items() >= {**place, **same}.items()
        assert row["share"] > 40 > row["largest_before"] >= row["before"]
    near, *far = figure.rows_of(r, "distances", pair=pairs.ARTICLE)
    assert (near["share"], near["others"]) == (100, 0) > (far[0]["share"], 0)
    drawn = figure.draw([r])
    assert [*drawn] == ["distances", *(f"{n}-transformer" for n in ("heads", "muted", "article"))]
    ax = drawn["heads-transformer"].axes[0]
    cells = {(t.get_position(), t.get_text()) for t in ax.texts}
    names = [t.get_text() for t in ax.get_yticklabels()]
    for row in figure.rows_of(r, "heads", attention="encoder"):
        x, y = 2 * row["layer"] - 2 + row["head"] - 0.5, names.index(row["pair"]) + 0.5
        is_above = row["share"] >= 10 + max(row["by_offset"], row["by_part_of_speech"])
        assert (((x, y), f"{row['share']:.0f}") in cells) == is_above
    ax = drawn["article-transformer"].axes[1]
    squares = [square.get_xy() for square in ax.patches]
    assert 100 in [ax.collections[0].get_array()[int(y), int(x)] for x, y in squares]


NO_CHANGE = dict.fromkeys(changes.CHANGES, 0)


def test_what_is_drawn_of_heads_is_known() -> None:
    """A chance is the larger one; ten changed words have kinds, nine have not; some gain."""
    places = [{"attention": kind, "layer": 1, "head": i} for kind in ATTENTIONS for i in (1, 2)]
    whole = {"attention": "none", "layer": 0, "head": 0, "n": 20, "exact": 15, "changed": 0}
    changed = {"ending": 4, "choice": 3, "order": 2, "omission": 1}
    counts = [(11, 7, changed), (16, 3, changed | {"order": 1}), *[(15, 1, {})] * 4]
    muting = [whole | NO_CHANGE] + [
        place | {"n": 20, "exact": exact, "changed": n} | NO_CHANGE | kinds
        for place, (exact, n, kinds) in zip(places, counts, strict=True)
    ]
    chances = {1: {"by_offset": 30.0, "by_part_of_speech": 20.0},
               2: {"by_offset": 4.0, "by_part_of_speech": 45.0}}  # fmt: skip
    heads = [
        place
        | chances[place["head"]]
        | {"pair": pairs.ARTICLE, "n": 9, "share": 50.0 + place["head"]}
        for place in places
    ]
    scores = [place | {"kinds": 10.0, "offset": 20.0, "both": 60.0} for place in places]
    article = [
        row | {"before": 3.0, "largest_before": 8.0, "whole": 15, "exact": 12, "n": 20} | NO_CHANGE
        for row in (heads[1], heads[4] | {"share": 40.0})
    ]
    made = fake_record("transformer", 7) | {
        "analyses": {"muting": muting, "heads": heads, "scores": scores, "article": article}
    }
    (r,) = as_records([made])
    drawn = figure.draw_muted(r)
    lost, kinds = drawn.axes
    assert [bar.get_height() for bar in lost.patches[:3]] == [4, -1, 0]
    assert [bar.get_height() for bar in kinds.patches[:5]] == pytest.approx([40, 30, 20, 10, 0])
    figure.draw_heads(r)
    _, row = figure.format_article_heads([r])
    shares = ["52 %", "45 %", "3 %", "15 of 20", "12 of 20"]
    assert row[:7] == ["Transformer, seed 7", "encoder 1.2", *shares]


def test_gpts_pairs_are_those_of_one_text() -> None:
    """Ten words, EOS at 10 and BOS at 11, which writes the first word of the target."""
    found, queries, keys = pairs.pair_sentence("text", PARSE)
    assert {("noun → article", 8, 6), ("verb → subject", 4, 1), ("relative pronoun → noun", 2, 1),
            ("noun → verb", 8, 5), (pairs.WRITTEN, 18, 8), ("previous", 12, 11),
            ("translation of the word written", 18, 6), ("translation of the word read", 19, 6),
            ("start of sentence", 23, 0)} <= {*found}  # fmt: skip
    assert all(key <= query for _, query, key in found)
    assert (queries, len(queries)) == (keys, 24)
    assert [queries[i] for i in (8, 10, 11, 13)] == ["noun", "end", "start", "noun"]


def test_a_planted_head_is_found() -> None:
    """Between source and target are pads; the first token has nothing before it."""
    looks_back = planted_gpt(3 * torch.eye(64).roll(-1, 0))  # the query at p is the key at p - 1
    rows = {row["pair"]: row for row in MEASURES["heads"](looks_back, looks_back, SAMPLE)}
    assert rows["previous"]["share"] > 99.9
    assert 99 > rows["previous"]["by_offset"] > 95
    assert rows["previous"]["n"] == sum(len(p.sentence.en) + len(p.sentence.de) + 1 for p in PARSES)
    nouns = [
        head - i == 1 for p in PARSES for i, (kind, head) in
        enumerate(zip(p.en.kinds, p.en.heads, strict=True)) if kind == "article"
    ]  # fmt: skip
    assert 0 < sum(nouns) < len(nouns)
    adjacent = 100 * sum(nouns) / len(nouns)
    assert rows["noun → article"]["share"] == pytest.approx(adjacent, abs=0.1)
    assert rows["noun → article"]["by_offset"] == pytest.approx(adjacent, abs=5)
    uniform = planted_gpt(torch.zeros(64, 64))
    rows = {row["pair"]: row for row in MEASURES["heads"](uniform, uniform, SAMPLE)}
    for name in ("noun → article", "verb → subject", "start of sentence", pairs.WRITTEN):
        named = [
            {pair for pair in pairs.pair_sentence("text", p)[0] if pair[0] == name} for p in PARSES
        ]
        n_keys = [Counter(i for _, i, _ in own) for own in named]  # a query can have several
        share = np.mean([100 * n / (i + 1) for own in n_keys for i, n in own.items()])
        assert rows[name]["share"] == pytest.approx(share, abs=1e-3)
        assert rows[name]["share"] == pytest.approx(rows[name]["by_offset"], rel=0.5)


def test_gpts_heads_are_measured_and_drawn() -> None:
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "n_positions": 128}
    model, start = (build("gpt", WORDS.vocab_size, **sizes).eval() for _ in range(2))
    for p in model.parameters():
        nn.init.normal_(p)
    seen = VP(WORD["see"], (NP(WORD["cat"], "the"),))
    parses = [*PARSES, parse([Clause(NP(WORD["dog"], "the"), seen)])]
    texts = [Pair(p.sentence.en_text, p.sentence.de_text) for p in parses]
    sample = measure.Sample(parses, encode_pairs(texts, WORDS), WORDS)
    analyses = {name: f(model, start, sample) for name, f in MEASURES.items()}
    row, twin = analyses["muting"][3], deepcopy(model)
    assert [row[key] for key in ("attention", "layer", "head")] == ["text", 2, 1]
    twin.decoder[1].self_attention.W_o.weight.data[:, :8] = 0
    whole, other = (measure.translate(each, sample) for each in (model, twin))
    assert row.items() >= measure.compare_translations(sample, whole, other).items()
    (r,) = as_records([fake_record("gpt", 1) | {"analyses": analyses}])
    assert {row["pair"] for row in r.analyses["distances"]} == {pairs.CLOSEST}
    (row,) = r.analyses["article"]
    shown = figure.rows_of(r, "maps", when="after")
    keys = shown[0]["keys"].split()
    assert [row["query"] for row in shown][-1] == keys[-1] == "<eos>"
    drawn = figure.draw([r])
    assert [*drawn] == ["distances", *(f"{n}-gpt" for n in ("heads", "muted", "article"))]
    assert len(drawn["heads-gpt"].axes) == 1


def test_a_model_without_heads_has_no_rows(tiny: Tiny) -> None:
    bahdanau = tiny("bahdanau")
    for measurement in MEASURES.values():
        assert measurement(bahdanau, bahdanau, SAMPLE) == []
    assert figure.draw(as_records([fake_record("bahdanau", 1)])) == {}


def test_the_distance_of_heads_is_their_total_variation() -> None:
    """The first query sees one key, which does not count; 0 is the same, 1 nothing in common."""
    visible = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]).bool()[None]
    heads = [
        [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0.4, 0.6]],
        [[1, 0, 0, 0], [0.8, 0.2, 0, 0], [0.4, 0.1, 0, 0.5]],
    ]  # fmt: skip
    found = measure.measure_distances(torch.tensor(heads)[None].double(), visible)
    assert found[0].tolist() == pytest.approx([0, 0, 1, 0.4, 0.625])  # (0.2 + 0.6)/2, (1/2 + 3/4)/2
    assert found[2, 3].item() == pytest.approx((0.8 + 0.5) / 2)
    assert_close(found, found.mT)


def test_heads_with_the_same_weights_have_no_distance() -> None:
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"d_model": 24, "n_heads": 3, "n_layers": 2, "d_ff": 8}
    model = build("transformer", WORDS.vocab_size, **sizes)
    a = model.encoder[1].self_attention
    for W in (a.W_q, a.W_k):
        W.weight.data[16:] = W.weight.data[8:16]
    rows = measure.compare_heads(model, SAMPLE, {"model": "transformer", "seed": 1})
    assert [(row["attention"], row["layer"]) for row in rows] == [
        (kind, layer) for kind in ("encoder", "decoder", "source") for layer in (1, 2)
    ]
    pairs = {(row["attention"], row["layer"]): row["pairs"] for row in rows}
    one, other, same = pairs.pop(("encoder", 2))
    assert one == pytest.approx(other, abs=1e-3)
    assert one > 0.05 > same == 0
    assert min(d for own in pairs.values() for d in own) > 0.05
    (maps,) = [row["maps"] for row in rows if "maps" in row]
    assert np.shape(maps) == (2, 11, 11)  # ten words and EOS
    assert np.sum(maps, -1) == pytest.approx(100, abs=6)


def test_the_record_of_two_heads_can_be_measured_again() -> None:
    record = files.read_json(ROOT / "results" / "two_heads.json")
    again = two_heads.measure({**two_heads.SETTINGS, "models": ["transformer"], "seeds": [2]})
    own = [r for r in record["rows"] if r["model"] == "transformer" and
           (r["when"], r["seed"]) in (("before", 2), ("after", 1))]  # fmt: skip
    for row, found in zip(own, again["rows"], strict=True):
        assert found["pairs"] == pytest.approx(row["pairs"], abs=0.003)
    *maps, ax = figure.draw_two_heads(record).axes
    assert maps[2].get_xlabel() == "head 1, after training"
    first = [r["pairs"] for r in record["rows"] if (r["attention"], r["layer"]) == ("encoder", 1)]
    drawn = [line.get_ydata()[0] for line in ax.lines]
    assert drawn[:2] == pytest.approx([np.mean(first[:5]), np.mean(first[5])])
