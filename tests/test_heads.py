"""What heads look for, and the words that change without one."""

import random
from copy import deepcopy

import numpy as np
import pytest
import torch
from conftest import Tiny
from fake_records import fake_record
from torch import Tensor, nn

from seqmodels import SequenceModel, build
from seqmodels.data.corpus import Pair
from seqmodels.data.tokenizers import Words
from tasks.heads import figure, measure
from tasks.made import grammar, lexicon
from tasks.made.pairs import examples
from tasks.made.trees import NP, VP, Clause, Relative, Tags, parse

WORD = {word.en[0]: word for word in (*lexicon.NOUNS, *lexicon.VERBS)}
OLD = next(adjective for adjective in lexicon.ADJECTIVES["a"] if adjective.en == "old")
DOG = NP(WORD["dog"], "the", relative=Relative(Clause(None, VP(WORD["run"]))))
PARSE = parse([Clause(DOG, VP(WORD["see"], (NP(WORD["cat"], "a", (OLD,)),), ("must",)))])
RNG = random.Random(3)
PARSES = [PARSE, *(grammar.draw_parse(RNG, n) for n in (7, 9))]
PAIRS = [Pair(p.sentence.en_text, p.sentence.de_text) for p in PARSES]
WORDS = Words.train([text for pair in PAIRS for text in pair[:2]])
SAMPLE = measure.Sample(PARSES, examples(PAIRS, WORDS), WORDS)


@pytest.fixture(scope="module")
def model() -> SequenceModel:
    """Build a Transformer with heads that differ."""
    torch.manual_seed(2)
    sizes = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_layers": 2}
    model = build("transformer", WORDS.vocab_size, **sizes).eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.6)
    return model


@pytest.fixture(scope="module")
def muted(model: SequenceModel) -> measure.Rows:
    """Measure it without each head."""
    return measure.mute_each(model, model, SAMPLE)


def test_words_depend_on_their_heads() -> None:
    """Keeps out the noun next to it, the main verb for the finite one, and the other language."""
    assert PARSE.sentence.en_text == "The dog that runs must see an old cat."
    assert PARSE.sentence.de_text == "Der Hund, der läuft, muss eine alte Katze sehen."
    assert PARSE.en.heads == (1, 4, 1, -1, -1, -1, 8, 8, 5, -1)
    assert PARSE.de.heads == (1, 6, -1, 1, -1, -1, -1, 9, 9, 10, -1, -1)
    assert [PARSE.de.roles[i] for i in (0, 1, 9)] == ["", "subject", "object"]
    assert PARSE.de.kinds[1:5] == ("noun", "comma", "relative pronoun", "verb")
    drawn = [draw(random.Random(5), 17) for draw in (grammar.draw_sentence, grammar.draw_parse)]
    assert drawn[0] == drawn[1].sentence


def test_pairs_are_named() -> None:
    """Keeps out turned arrows, a target shifted the other way, the future, and another "the"."""
    source, reads, writes = (
        {*measure.pair_sentence(attention, PARSE)[0]} for attention in measure.ATTENTIONS
    )
    assert {("article → noun", 6, 8), ("noun → article", 8, 6), ("adjective → noun", 7, 8),
            ("noun → verb", 1, 4), ("verb → subject", 4, 1), ("noun → verb", 8, 5),
            ("article → other noun", 0, 8), ("next", 8, 9), ("previous", 9, 8),
            ("end of sentence", 0, 10)} <= source  # fmt: skip
    assert ("verb → subject", 5, 8) not in source
    assert {("noun → article", 10, 8), ("own", 0, 0), ("start of sentence", 5, 0)} <= reads
    assert all(key <= query for _, query, key in reads)
    assert {(measure.WRITTEN, 7, 8), ("translation of the word written", 7, 6),
            ("translation of the word read", 8, 6)} <= writes  # fmt: skip
    kinds = ("article", "noun", "verb") * 2 + ("article", "noun")
    tags = Tags(kinds, ("",) * 8, (1, -1, -1, 4, -1, -1, 7, -1))
    pairs = measure.pair_words(["The", "cat", "saw", "the", "dog", "see", "a", "girl"], tags)
    found = [(name == measure.CLOSEST, *places) for name, *places in pairs if "the”" in name]
    assert found == [(is_near, i, j) for i, near in ((1, 0), (4, 3), (7, 3)) for j in (0, 3)
                     for is_near in [j == near]]  # fmt: skip


def test_shares_and_explained_variance() -> None:
    """Keeps out pads, chance of the other group, and effects of kinds for those of offsets."""
    grid = measure.make_grid("encoder", PARSES)
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


@pytest.mark.parametrize(("other", "changes"), [
    ("Die Hund sah die alte Katze .", {"ending": 1}),
    ("Hund sah die alte Katze .", {"omission": 1}),
    ("Der Hund die alte Katze sah .", {"order": 1}),
    ("Der Wolf sahen die alten Katze .", {"choice": 1, "ending": 2}),
    ("Der Hund sah sehr die alte alte Katze .", {"addition": 2}),
])  # fmt: skip
def test_changed_words(other: str, changes: dict[str, int]) -> None:
    """Keeps out a form for another word, a word that moved for two changes, and a loop."""
    words = ["Der", "Hund", "sah", "die", "alte", "Katze", "."]
    assert measure.classify_changes(words, other.split()) == changes
    assert sum(measure.classify_changes(other.split(), []).values()) == len(other.split())


def test_a_muted_head_is_zero_in_its_columns(model: SequenceModel, muted: measure.Rows) -> None:
    """Keeps out the head next to it, another attention, and translations by the whole model."""
    whole, *rows = muted
    assert (len(rows), whole["changed"], whole["n"]) == (12, 0, 3)
    intact = measure.translate(model, SAMPLE)
    for row in (rows[1], rows[6], rows[11]):
        twin = deepcopy(model)
        stack = twin.encoder if row["attention"] == "encoder" else twin.decoder
        part = "src_attention" if row["attention"] == "source" else "self_attention"
        columns = slice(4 * row["head"] - 4, 4 * row["head"])
        getattr(stack[row["layer"] - 1], part).W_o.weight.data[:, columns] = 0
        changed = measure.compare_translations(SAMPLE, intact, measure.translate(twin, SAMPLE))
        assert row.items() >= changed.items()
        assert row["changed"]


def test_the_article_head_is_found_and_drawn(
    model: SequenceModel, muted: measure.Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out another head, its start for its end, other distances, and cells moved."""
    real = measure.collect_weights

    def plant(given: SequenceModel, sample: measure.Sample) -> dict[str, Tensor]:
        weights = {kind: w.clone() for kind, w in real(given, sample).items()}
        for kind, name in measure.NOUN_OF.items() if given is model else ():
            grid = measure.make_grid(kind, PARSES)
            near = grid.pairs[name] & (grid.offset.abs() != 2)
            has_near, heads = near.any(-1, keepdim=True), weights[kind]
            heads[:, 2] = torch.where(has_near, near.double(), heads[:, 2])
        return weights

    monkeypatch.setattr(measure, "collect_weights", plant)
    r, start = fake_record("transformer", 1), deepcopy(model)
    r["analyses"] = {
        "heads": measure.describe_heads(model, start, SAMPLE), "muting": muted,
        "scores": measure.describe_scores(model, start, SAMPLE),
        "distances": measure.describe_distances(model, start, SAMPLE),
        "article": measure.describe_article_heads(model, start, SAMPLE),
        "maps": measure.map_article_heads(model, start, SAMPLE),
    }  # fmt: skip
    for row in r["analyses"]["article"]:
        place = {"attention": row["attention"], "layer": 2, "head": 1}
        assert row.items() >= place.items()
        assert row["share"] > 40 > row["largest_before"] >= row["before"]
        (same,) = figure.rows_of({"analyses": {"muting": muted}}, "muting", **place)
        assert row.items() >= {key: same[key] for key in ("exact", *measure.CHANGES)}.items()
    near, *far = figure.rows_of(r, "distances", pair=measure.ARTICLE)
    assert (near["share"], near["others"]) == (100, 0) > (far[0]["share"], 0)
    drawn = figure.draw([r])
    assert [*drawn] == ["distances", *(f"{n}-transformer" for n in ("heads", "muted", "article"))]
    cells = {(t.get_position(), t.get_text()) for t in drawn["heads-transformer"].axes[0].texts}
    names = [t.get_text() for t in drawn["heads-transformer"].axes[0].get_yticklabels()]
    for row in figure.rows_of(r, "heads", attention="encoder"):
        x, y = 2 * row["layer"] - 2 + row["head"] - 0.5, names.index(row["pair"]) + 0.36
        assert ((x, y), f"{row['share']:.0f}") in cells
    squares = [p for ax in drawn["article-transformer"].axes for p in ax.patches]
    rows = [row for row in figure.rows_of(r, "maps", attention="encoder") if row["noun"] >= 0]
    assert squares or rows == []


def test_a_model_without_heads_has_no_rows(tiny: Tiny) -> None:
    """Keeps out a crash at the end of training for --models bahdanau."""
    bahdanau = tiny("bahdanau")
    for measurement in (measure.describe_heads, measure.mute_each, measure.describe_distances,
                        measure.describe_article_heads, measure.map_article_heads):  # fmt: skip
        assert measurement(bahdanau, bahdanau, SAMPLE) == []
    assert figure.draw([fake_record("bahdanau", 1)]) == {}
