"""Inside a model: planted cases that must come out, and controls that must not."""

import random
from collections import Counter
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import RESULTS, TINY, Call, Pairs, Tiny
from fake_records import as_records, fake_record
from torch import nn
from torch.testing import assert_close
from toys import planted_gpt

from seqmodels import SequenceModel, build
from seqmodels.data.batches import collate
from seqmodels.data.tokenizers import Words
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.interface import Batch
from seqmodels.records.io import load as load_record
from seqmodels.report import style
from seqmodels.search import unroll
from seqmodels.utils import files
from tasks.analyses import watch
from tasks.inside import __main__ as inside
from tasks.inside import figure, heads, pairs, parts, reader, smoothing, words
from tasks.synthetic import changes, grammar, lexicon
from tasks.synthetic.pairs import encode_sentences
from tasks.synthetic.trees import NP, VP, Clause, Relative, Tags, parse

WORD = {word.en[0]: word for word in (*lexicon.NOUNS, *lexicon.VERBS)}
OLD = next(adjective for adjective in lexicon.ADJECTIVES["a"] if adjective.en == "old")
DOG = NP(WORD["dog"], "the", relative=Relative(Clause(None, VP(WORD["run"]))))
PARSE = parse([Clause(DOG, VP(WORD["see"], (NP(WORD["cat"], "a", (OLD,)),), ("must",)))])
LEXICON = Words.train([" ".join(s.en + s.de) for s in grammar.draw_corpus(1, 900, 1, 20, 10, 1)[0]])
ATTENTIONS = ("encoder", "decoder", "source")


def draw(n: int, longest: int = 14) -> reader.Sample:
    return reader.draw_sample(n, LEXICON, range(6, longest + 1))


PARSES = [PARSE, *(grammar.draw_unseen(random.Random(n), n, set()) for n in (7, 9))]
SENTENCES = [p.sentence for p in PARSES]
SMALL = Words.train([text for s in SENTENCES for text in (s.en_text, s.de_text)])
SAMPLE, SHORT = (reader.Sample(PARSES, encode_sentences(SENTENCES, t), t) for t in (LEXICON, SMALL))
FEW = draw(12)


def make(name: str, **sizes: Any) -> SequenceModel:
    longer = {"n_positions": 90} if "n_positions" in TINY[name] else {}
    model = build(name, LEXICON.vocab_size, **TINY[name] | longer | sizes).eval()
    for p in model.parameters():
        nn.init.normal_(p, std=0.4)
    return model


def reader_of(name: str, sample: reader.Sample = FEW) -> reader.Reader:
    return reader.Reader(make(name), make(name), sample)


# ----------------------------------------------------------------------------------------- Reading
def test_words_have_the_features_of_their_nouns() -> None:
    assert PARSE.sentence.en_text == "The dog that runs must see an old cat."
    assert PARSE.sentence.de_text == "Der Hund, der läuft, muss eine alte Katze sehen."
    assert PARSE.de.heads == (1, 6, -1, 1, -1, -1, -1, 9, 9, 10, -1, -1)
    listed = reader.list_words([PARSE, PARSE])
    the, an, verb, cat = (listed[10 + i] for i in (0, 6, 3, 8))
    assert (the.sentence, the.role, the.forms) == (1, "subject", (0, False, lexicon.NOM))
    assert an.forms == cat.forms == (1, False, lexicon.ACC)
    assert (an.role, verb.kind, verb.role, verb.forms) == ("object", "verb", "none", None)


READS_AHEAD = ["bahdanau", "lstm_seq2seq", "transformer"]


@pytest.mark.parametrize("name", [*READS_AHEAD, "rnn_encdec", "gpt", "linear_attention"])
def test_vectors_are_those_of_the_words_and_know_what_has_been_read(name: str) -> None:
    """A recurrent encoder has one layer; the embeddings are in the order of the sentence."""
    model = make(name)
    layers = reader.collect_layers(model, FEW.examples)
    assert len(layers) == 1 + (2 if hasattr(model, "embedding") else 1)
    texts = [word.text for word in reader.list_words(FEW.parses)]
    assert all(len(x) == len(texts) for x in layers)
    if not hasattr(model, "positions") and name != "transformer":
        ids = torch.tensor([LEXICON.encode(text)[0] for text in texts])
        assert_close(layers[0], model.embed.weight.detach()[ids])
    parses, examples, _ = FEW
    alone = reader.collect_layers(model, examples[3:4])
    start = sum(len(p.sentence.en) for p in parses[:3])
    for x, own in zip(layers, alone, strict=True):
        assert_close(x[start : start + len(own)], own, rtol=1e-4, atol=1e-4)
    changed = [e._replace(src=[*e.src[:-3], e.src[-4], *e.src[-2:]]) for e in examples[3:4]]
    other = reader.collect_layers(model, changed)
    assert (not torch.allclose(other[-1][0], alone[-1][0], atol=1e-6)) == (name in READS_AHEAD)


def test_states_are_those_that_the_output_reads(name: str, tiny: Tiny, pairs: Pairs) -> None:
    model, (src, src_mask, tgt_in) = tiny(name), pairs
    states = reader.decoder_states(model, Batch(src, src_mask, tgt_in, tgt_in))
    logits, last = unroll(model, model.encode(src, src_mask), tgt_in)
    if name in ("rnn_encdec", "bahdanau"):
        assert_close(states[:, -1], last.s)
    elif name == "lstm_seq2seq":
        assert_close(states[:, -1].view(len(src), 2, *last.c.shape[1:])[:, 1], last.c)
    else:
        assert_close(states @ model.embedding.weight.T, logits)


# ------------------------------------------------------------------------------------------- Heads
def test_pairs_are_named() -> None:
    source, reads, writes = ({*pairs.pair_sentence(a, PARSE)[0]} for a in ATTENTIONS)
    assert {("article → noun", 6, 8), ("noun → article", 8, 6), ("adjective → noun", 7, 8),
            ("noun → verb", 1, 4), ("verb → subject", 4, 1), ("noun → verb", 8, 5),
            ("next", 8, 9), ("previous", 9, 8)} <= source  # fmt: skip
    assert ("verb → subject", 5, 8) not in source
    assert not any(pairs.CLOSEST in name for name, *_ in source)  # it has one "the"
    assert ("noun → article", 10, 8) in reads
    assert all(key <= query for _, query, key in reads)
    for kind in ("decoder", "text"):
        assert not pairs.make_grid(kind, PARSES).visible[:, 3, 4:].any()
    assert {(pairs.NOUN_OF["source"], 7, 8), ("translation of the word written", 7, 6)} <= writes
    kinds = ("article", "noun", "verb") * 2 + ("verb", "article", "noun")
    tags = Tags(kinds, ("",) * 9, (1, -1, -1, 4, -1, -1, -1, 8, -1))
    named = pairs.pair_words(["The", "cat", "saw", "the", "dog", "run", "see", "a", "girl"], tags)
    assert [pair for pair in named if pairs.CLOSEST in pair[0]] == [
        (f"{pairs.CLOSEST}{distance}", i, j)
        for i, j, d in ((1, 0, 1), (4, 3, 1), (8, 3, 4)) for distance in ("", f", {d} before")
    ]  # fmt: skip
    found, queries, keys = pairs.pair_sentence("text", PARSE)  # EOS is at 10, BOS at 11
    assert {("noun → article", 8, 6), ("relative pronoun → noun", 2, 1), ("previous", 12, 11),
            (pairs.NOUN_OF["text"], 18, 8)} <= {*found}  # fmt: skip
    assert all(key <= query for _, query, key in found)
    assert [queries[i] for i in (8, 10, 11, 13)] == ["noun", "end", "start", "noun"]
    assert queries == keys


def test_shares_and_explained_variance() -> None:
    grid = pairs.make_grid("encoder", PARSES)
    kinds = torch.broadcast_tensors(grid.query_kind.unsqueeze(2), grid.by_key)
    assert len(grid.by_kinds.unique()) == len(torch.stack(kinds, -1).flatten(0, 2).unique(dim=0))
    effects = [torch.randn(40)[grid.by_offset], torch.randn(900)[grid.by_kinds]]
    scores = torch.stack([*effects, sum(effects), torch.randn(grid.visible.shape)], 1).double()
    w = scores.masked_fill(~grid.visible.unsqueeze(1), -torch.inf).softmax(-1).nan_to_num()
    found = {key: np.round(values) for key, values in heads.explain_scores(w, grid).items()}
    assert [found["offset"][0], found["kinds"][1], *found["both"][:3]] == [100] * 5
    assert max(found["offset"][1], found["kinds"][0], found["both"][3], found["kinds"][2]) < 95
    flat = (grid.visible / grid.visible.sum(-1, keepdim=True).clamp_min(1)).double()
    shares = heads.list_shares((0.9 * grid.pairs["previous"] + 0.1 * flat).unsqueeze(1), grid)
    share, by_offset, by_kind = (values.item() for values in shares["previous"].values())
    assert (share, by_offset) == (pytest.approx(90.8, abs=0.5),) * 2
    assert 5 < by_kind < 30
    assert shares["next"]["share"].item() < 1.2


def test_weights_are_the_models_own() -> None:
    model = make("transformer")
    weights = heads.collect_weights(model, SAMPLE)
    assert [*weights] == [*ATTENTIONS]
    own = model.attention_weights(*collate(SAMPLE.examples)[:3]).flatten(1, 2)
    assert_close(weights["source"].float(), own, rtol=0, atol=1e-5)


def test_a_planted_head_is_found() -> None:
    """Between source and target are pads; the first token has nothing before it."""
    looks_back = planted_gpt(3 * torch.eye(64).roll(-1, 0))  # the query at p is the key at p - 1
    uniform = planted_gpt(torch.zeros(64, 64))
    found = heads.describe_heads(reader.Reader(looks_back, uniform, SHORT))
    rows = {row["pair"]: row for row in found}
    previous = rows["previous"]
    assert previous["share"] > 99.9
    assert 99 > previous["by_offset"] > 95
    assert previous["before"] < 20
    assert previous["n"] == sum(len(p.sentence.en) + len(p.sentence.de) + 1 for p in PARSES)
    read = [its for p in PARSES for its in enumerate(zip(p.en.kinds, p.en.heads, strict=True))]
    nouns = [head - i == 1 for i, (kind, head) in read if kind == "article"]
    adjacent = 100 * sum(nouns) / len(nouns)
    assert 0 < adjacent < 100
    assert rows["noun → article"]["share"] == pytest.approx(adjacent, abs=0.1)


# ------------------------------------------------------------------------------------------- Parts
def test_changed_words_are_counted_by_kind() -> None:
    whole = ["Der", "Hund", "sah", "die", "alte", "Katze", "."]
    for text, expected in {
        "die Hund sah die alte Katze .": {"ending": 1},
        "der Hund sah die alte Katze .": {},
        "Hund sah die alte Katze .": {"omission": 1},
        "sah die alte Katze Der Hund .": {"order": 2},
        "Der Wolf sahen die alten Katze .": {"choice": 1, "ending": 2},
        "Der Hund sah sehr die alte alte Katze .": {"addition": 2},
    }.items():
        assert changes.classify_changes(whole, text.split()) == Counter(expected)
        assert changes.classify_changes(text.split(), [])["omission"] == len(text.split())
    assert changes.classify_changes(["Er", "schlief"], ["Ihm", "schlief"])["ending"] == 1
    right = [[*p.sentence.de] for p in PARSES]
    fewer = [right[0][:-1], *right[1:]]
    for one, other, n_exact, kind in ((fewer, right, 3, "addition"), (right, fewer, 2, "omission")):
        found = parts.compare_translations(SAMPLE, one, other)
        assert (found["exact"], found["changed"], found[kind]) == (n_exact, 1, 1)


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_muting_a_head_is_setting_its_columns_to_zero(name: str) -> None:
    model = make(name)
    for p in model.parameters():
        nn.init.normal_(p)
    whole, *muted = parts.mute_each_head(reader.Reader(model, model, SAMPLE))
    assert (len(muted), whole["changed"], whole["n"]) == (12 if name == "transformer" else 4, 0, 3)
    intact = parts.translate(model, SAMPLE)
    for i in (1, len(muted) - 2):
        twin, K = deepcopy(model), model.config.d_model // 2
        a, head = reader.heads_of(twin)[i]
        a.module.W_o.weight.data[:, K * head - K : K * head] = 0
        changed = parts.compare_translations(SAMPLE, intact, parts.translate(twin, SAMPLE))
        assert muted[i].items() >= {**a.name_head(head), **changed}.items()
    assert any(row["changed"] for row in muted)


def test_a_sublayer_that_adds_nothing_can_be_left_out() -> None:
    model = make("transformer", n_layers=2)
    model.encoder[0].self_attention.W_o.weight.data.zero_()
    _, *rows = parts.mute_each_sublayer(reader.Reader(model, model, SAMPLE))
    by_name = {(row["stack"], row["layer"], row["sublayer"]): row for row in rows}
    assert len(by_name) == 2 * 2 + 2 * 3
    assert by_name["encoder", 1, "attention"]["changed"] == 0
    assert max(row["changed"] for row in rows) > 0
    twin = deepcopy(model)
    for p in twin.decoder[1].ff[2].parameters():
        p.data.zero_()
    found = parts.translate(twin, SAMPLE)
    changed = parts.compare_translations(SAMPLE, parts.translate(model, SAMPLE), found)
    assert by_name["decoder", 2, "feed-forward"].items() >= changed.items()


# ------------------------------------------------------------------------------------------- Words
@pytest.mark.parametrize(("name", "sizes"), [("gpt", {}), ("transformer", {"is_prenorm": True})])
def test_a_layer_that_adds_nothing_leaves_the_word_as_it_was(name: str, sizes: Any) -> None:
    model: Any = make(name, n_layers=3, **sizes)
    for path, p in model.decoder[2].named_parameters():
        p.data *= "W_o" not in path and "ff.2" not in path
    n = sum(len(example.tgt) for example in SAMPLE.examples)
    before, first, *same = parts.read_early(reader.Reader(model, model, SAMPLE))
    assert same == [{"layer": i, "n": n, "share": 100} for i in (2, 3)]
    assert max(before["share"], first["share"]) < 100


def test_a_planted_gender_axis_is_found_and_noise_is_not() -> None:
    own = reader_of("bahdanau")
    table = own.model.embed.weight.data.normal_()
    gender, *_ = words.describe_neighbours(own)
    assert abs(gender["same"] - gender["chance"]) < 25
    for noun in lexicon.NOUNS:
        table[LEXICON.encode(noun.en[0])[0], noun.gender] += 30
    gender, meaning, _ = words.describe_neighbours(own)
    assert (gender["label"], gender["same"]) == ("gender", 100)
    assert 30 < gender["chance"] < 42
    assert meaning["same"] < 70
    cosines = {row["other"]: row["cosine"] for row in words.compare_nouns(own)}
    assert cosines["horse"] > 0.5 > cosines["boy"]
    assert words.cosines(torch.tensor([[1.0, 0], [3, 0]])).tolist() == [[1, -1], [-1, 1]]
    assert words.compare_nearest(torch.eye(4), [1, 1, 1, 2])["chance"] == 50  # 3 · 2 of 4 · 3


def test_probes_read_what_was_planted_and_their_controls_do_not() -> None:
    own = reader_of("transformer", draw(400))
    noise, planted = torch.randn(2, len(own.words), 30)
    for i, word in enumerate(own.words):
        if word.forms:
            planted[i, word.forms.gender] += 9
    assert_close(reader.mix_features(100 * noise), reader.mix_features(noise), rtol=0, atol=1e-4)
    own.layers = [noise, planted]  # in place of the model's
    rows = {(row["layer"], row["property"]): row for row in words.probe_articles(own)}
    assert rows[1, "gender"]["score"] > 95
    chances = [rows[1, name]["chance"] for name in words.PROPERTIES]
    assert chances == pytest.approx([100 / n for n in (3, 3, 2, 3)])
    left_out = [w for w in own.words if w.text == "the" and w.sentence >= 266]
    assert rows[1, "number"]["n"] == len(left_out)
    assert rows[1, "gender"]["n"] == sum(w.forms.is_plural is False for w in left_out if w.forms)
    for key in ((0, "gender"), (0, "case"), (1, "number")):
        assert abs(rows[key]["score"] - rows[key]["chance"]) < 20
    for row in rows.values():
        assert abs(row["control"] - row["chance"]) < 20


def test_a_noun_knows_the_article_and_the_verb_that_were_planted() -> None:
    own = reader_of("transformer", draw(400, longest=18))
    planted, start = torch.randn(len(own.words), 30), 0
    for p in own.sample.parses:
        for text, kind, head in zip(p.sentence.en, p.en.kinds, p.en.heads, strict=True):
            if kind == "article" and text.lower() in ("a", "an"):
                planted[start + head, 0] += 9
        start += len(p.sentence.en)
    own.layers = [torch.randn(len(own.words), 30), planted]  # in place of the model's
    rows = {(row["layer"], row["property"]): row for row in words.probe_nouns(own)}
    assert rows[1, "article"]["score"] > 95 > 70 > rows[0, "article"]["score"]
    assert rows[1, "verb of a subject"]["score"] < 20
    assert rows[1, "place"]["chance"] == pytest.approx(20)  # the last is from the 17th word on
    n_verbs = [round(100 / rows[1, f"verb of {r}"]["chance"]) for r in ("a subject", "an object")]
    assert n_verbs[1] < n_verbs[0] <= len(lexicon.VERBS)  # some take no object


def test_auc_by_hand() -> None:
    x, member = torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([0, 1, 0, 1]).bool()
    assert words.compute_auc(x, member) == 87.5
    x, one = torch.arange(10.0)[:, None], (torch.arange(10) >= 5)[:, None]
    assert words.mean_auc(x, one, ~one) == (100, 1)
    assert words.mean_auc(x[1:], one[1:], ~one[1:]) == (50, 0)  # too few states to say


def test_words_are_to_come_until_their_last_german_word() -> None:
    labels = words.label_states([PARSE.sentence], [len(PARSE.sentence.de)])
    dog, old = words.NUMBER["dog"], words.NUMBER["old"]
    assert labels.to_come[:, dog].nonzero().flatten().tolist() == [0, 1]
    assert labels.age[:5, dog].tolist() == [0, 0, 1, 2, 3]
    assert labels.age[:, old].tolist() == [0] * 9 + [1, 2, 3, 4]
    assert labels.is_end.flatten().nonzero().flatten().tolist() == [12]
    assert not labels.to_come[:, words.NUMBER["girl"]].any()
    ages = [[low <= n <= high for low, high in words.AGES.values()] for n in range(1, 99)]
    assert [sum(each) for each in ages] == [1] * 98


@pytest.mark.parametrize("is_kept", [False, True], ids=["deleted", "ticked off"])
def test_deleted_and_ticked_off_words_are_told_apart(is_kept: bool, monkeypatch: Any) -> None:
    sample = draw(240)
    sentences = [p.sentence for p in sample.parses]
    labels = words.label_states(sentences, [len(s.de) for s in sentences])
    planted = torch.cat([labels.to_come, (labels.age > 0) & is_kept], 1).double()
    monkeypatch.setattr(words, "collect_states", lambda *_: planted)
    monkeypatch.setattr(words, "mix_features", lambda x: x + 0.1 * torch.randn(x.shape).double())
    rows = {row["state"]: row for row in words.describe_said(reader_of("rnn_encdec", sample))}
    assert rows["to come"]["auc"] > 97
    for name in ("1", "5–8", "before EOS"):
        assert (rows[name]["auc"] > 95) == is_kept
        assert abs(rows[name]["control"] - 50) < 20


# ------------------------------------------------------------------------------------------- Scores
@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_softmax_is_a_kernel_with_weights_by_length(name: str, tiny: Tiny) -> None:
    """Where all keys are equally long, the kernel alone is the softmax."""
    model = tiny(name)
    attentions = smoothing.list_smoothers(model)
    batch = collate([example._replace(src=[5, 6, 7], tgt=[8, 9]) for example in FEW.examples[:2]])
    with watch(a.module for a in attentions) as calls:
        model(batch.src, batch.src_mask, batch.tgt_in)
    for a, ((arguments, _),) in zip(attentions, calls, strict=True):
        q, k, _, mask = arguments
        exact = a.module.attention_weights(q, k, k, mask)
        kernel, pure = (smoothing.kernel_weights(q, k, mask, has_prior=p) for p in (True, False))
        assert_close(kernel, exact, rtol=0, atol=1e-5)
        assert (pure - exact).abs().max() > 1e-4
        k = 3 * nn.functional.normalize(k, dim=-1)
        pure = smoothing.kernel_weights(q, k, mask, has_prior=False)
        assert_close(pure, smoothing.equal_weights(q, k, mask), rtol=0, atol=1e-5)
        assert_close(pure, smoothing.softmax_weights(q, k, mask), rtol=0, atol=1e-5)


def test_weights_are_replaced_for_the_loss() -> None:
    own = reader_of("transformer")
    scored = score_teacher_forced(own.model, FEW.examples)
    nats = sum(row["nats"] for row in scored) / sum(row["n_tokens"] for row in scored)
    exact, *others = smoothing.measure_kernel(own)
    assert exact["nats"] == pytest.approx(nats)
    assert all(other["nats"] != pytest.approx(nats, rel=1e-5) for other in others)


# ----------------------------------------------------------------------------------- Whole records
def test_a_model_without_a_part_has_no_rows(tiny: Tiny) -> None:
    own = reader_of("bahdanau")
    for name, measure in (heads.MEASURES | parts.MEASURES | smoothing.MEASURES).items():
        assert measure(own) == [], name
    assert figure.draw(as_records([fake_record("bahdanau", 1)])) == {}
    cosine = tiny("transformer_cosine")
    assert smoothing.list_smoothers(cosine) == []


LIVE = RESULTS / "translation-live" / "gpt-seed1"


def test_runs_are_measured_and_drawn(call: Call, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(style, "save", lambda _, path: files.write(path, b""))
    monkeypatch.setattr(reader, "N_SENTENCES", 24)
    monkeypatch.setattr(parts, "N_TRANSLATED", 2)
    code, out, _ = call(inside, LIVE, "rnn_encdec", "--out", tmp_path)
    assert code == 0
    gpt, shipped = map(load_record, (tmp_path / "gpt-seed1.json", LIVE.with_suffix(".json")))
    assert (gpt.task, gpt.weights_sha256) == ("inside", shipped.weights_sha256)
    assert len(gpt.analyses) == 11
    assert any(row["share"] != row["before"] for row in gpt.analyses["heads"])
    both = [row["both"] for row in gpt.analyses["scores"]]
    assert both == [round(x, 4) for x in both] != [round(x, 3) for x in both]
    assert len({*both}) > 1
    figures = {path.stem for path in tmp_path.glob("*.svg")}
    shown = {"heads-gpt", "muted-gpt", "stream-gpt", "smoothing-gpt"}
    shown |= {"neighbours", "probes", "nouns", "said"}
    assert shown <= figures
    assert "heads-rnn_encdec" not in figures
    assert str(tmp_path / "said.svg") in out


def test_a_run_on_other_sentences_is_refused(call: Call, trained: Path, tmp_path: Path) -> None:
    code, _, error = call(inside, trained / "gpt-seed1", "--out", tmp_path / "new")
    assert code == 2
    assert "does not read the built-in grammar word by word" in error
    other: Any = SimpleNamespace(record=SimpleNamespace(base="transformer_recurrent_1"))
    with pytest.raises(ValueError, match="has other parts"):
        inside.measure_run("other", other)
    code, _, error = call(inside, "gpt", LIVE, "--out", tmp_path)
    assert (code, "have the same name" in error) == (2, True)
