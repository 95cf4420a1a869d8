"""What is inside a word: planted cases that must come out, and controls that must not."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import RESULTS, TINY, Call
from torch import Tensor
from torch.testing import assert_close

from seqmodels import SequenceModel, build, compare
from seqmodels.data.batches import collate
from seqmodels.data.tokenizers import Words
from seqmodels.inference import find_record
from seqmodels.records.io import load as load_record
from seqmodels.report import load
from tasks.analyses import Attention, Sample, draw_sample
from tasks.synthetic import grammar, lexicon
from tasks.synthetic.trees import NP, VP, Clause, Relative, parse
from tasks.words import __main__ as words
from tasks.words import measure

WORD = {word.en[0]: word for word in (*lexicon.NOUNS, *lexicon.VERBS)}
OLD = next(adjective for adjective in lexicon.ADJECTIVES["a"] if adjective.en == "old")
DOG = NP(WORD["dog"], "the", relative=Relative(Clause(None, VP(WORD["run"]))))
PARSE = parse([Clause(DOG, VP(WORD["see"], (NP(WORD["cat"], "a", (OLD,)),), ("must",)))])
LEXICON = Words.train([" ".join(s.en + s.de) for s in grammar.draw_corpus(1, 900, 1, 20, 10, 1)[0]])


def draw(n: int) -> Sample:
    return draw_sample(n, range(6, 15), LEXICON)


FEW = draw(12)


def make(name: str, **sizes: Any) -> SequenceModel:
    longer = {"n_positions": 90} if "n_positions" in TINY[name] else {}
    model = build(name, LEXICON.vocab_size, **TINY[name] | longer | sizes).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.4)
    return model


def reader_of(name: str, sample: Sample = FEW) -> measure.Reader:
    return measure.Reader(make(name), make(name), sample)


def test_words_have_the_features_of_their_nouns() -> None:
    assert PARSE.sentence.en_text == "The dog that runs must see an old cat."
    listed = measure.list_words([PARSE, PARSE])
    the, an, verb, cat = (listed[10 + i] for i in (0, 6, 3, 8))
    assert (the.sentence, the.place, the.role, the.distance) == (1, 0, "subject", 4)
    assert the.forms == (0, False, lexicon.NOM)
    assert an.forms == cat.forms == (1, False, lexicon.ACC)
    assert (an.role, an.distance, cat.distance) == ("object", 1, 3)
    assert (verb.kind, verb.role, verb.forms, verb.distance) == ("verb", "none", None, None)


READS_AHEAD = {
    "rnn_encdec": False, "bahdanau": True, "lstm_seq2seq": True, "transformer": True, "gpt": False,
    "linear_attention": False,
}  # fmt: skip


@pytest.mark.parametrize("name", READS_AHEAD)
def test_vectors_are_those_of_the_words_and_know_what_has_been_read(name: str) -> None:
    """A recurrent encoder has one layer; the embeddings are in the order of the sentence."""
    model = make(name)
    layers = measure.collect(measure.source_layers, model, FEW.examples)
    assert len(layers) == 1 + (2 if hasattr(model, "embedding") else 1)
    texts = [word.text for word in measure.list_words(FEW.parses)]
    assert all(len(x) == len(texts) for x in layers)
    if not hasattr(model, "positions") and name != "transformer":
        ids = torch.tensor([LEXICON.encode(text)[0] for text in texts])
        assert_close(layers[0], model.embed.weight.detach()[ids])
    parses, examples, _ = FEW
    alone = measure.collect(measure.source_layers, model, examples[3:4])
    start = sum(len(p.sentence.en) for p in parses[:3])
    for x, own in zip(layers, alone, strict=True):
        assert_close(x[start : start + len(own)], own, rtol=1e-4, atol=1e-4)
    changed = [e._replace(src=[*e.src[:-3], e.src[-4], *e.src[-2:]]) for e in examples[3:4]]
    other = measure.collect(measure.source_layers, model, changed)
    assert (not torch.allclose(other[-1][0], alone[-1][0], atol=1e-6)) == READS_AHEAD[name]


def test_a_planted_gender_axis_is_found_and_noise_is_not() -> None:
    reader = reader_of("bahdanau", draw(150))
    table = reader.model.embed.weight.data.normal_()
    rows = {row["label"]: row for row in measure.describe_neighbours(reader) if not row["layer"]}
    assert rows["gender"]["p"] > 0.05
    assert abs(rows["gender"]["same"] - rows["gender"]["chance"]) < 25
    for noun in lexicon.NOUNS:
        table[LEXICON.encode(noun.en[0])[0], noun.gender] += 30
    rows = {row["label"]: row for row in measure.describe_neighbours(reader) if not row["layer"]}
    assert (rows["gender"]["same"], rows["gender"]["p"]) == (100, pytest.approx(1 / 1001))
    assert rows["meaning"]["p"] > 0.01
    assert 30 < rows["gender"]["chance"] < 42
    found = measure.list_nearest(reader)
    cosines = {row["other"]: row["cosine"] for row in found if "other" in row}
    assert cosines["horse"] > 0.5 > cosines["boy"]
    (girl,) = (row["nearest"] for row in found if row["word"] == "girl" and "nearest" in row)
    assert {WORD[word].gender for word in girl.split()} == {2}


def test_probes_read_what_was_planted_and_their_controls_do_not() -> None:
    reader = reader_of("transformer", draw(400))
    n = len(reader.words)
    noise, planted = torch.randn(n, 30), torch.randn(n, 30)
    for i, word in enumerate(reader.words):
        if word.forms:
            planted[i, word.forms.gender] += 9
        planted[i, 10] = word.place
    reader.layers = [noise, planted]  # in place of the model's
    rows = {(row["layer"], row["property"]): row for row in measure.probe_layers(reader)}
    assert min(rows[1, "gender"]["score"], rows[1, "position"]["score"]) > 95
    assert (rows[1, "gender"]["chance"], rows[1, "number"]["chance"]) == (
        pytest.approx(33.3, 0.01),
        50,
    )
    for key in ((0, "gender"), (0, "case"), (1, "number")):
        assert abs(rows[key]["score"] - rows[key]["chance"]) < 20
    for row in rows.values():
        assert abs(row["control"] - row["chance"]) < 20
    assert rows[0, "position"]["score"] < 15


def test_a_layer_that_adds_nothing_can_be_left_out() -> None:
    model = make("transformer", n_layers=2)
    first, _ = model.encoder
    first.self_attention.W_o.weight.data.zero_()
    for p in first.ff[2].parameters():
        p.data.zero_()
    first.ff[2].bias.data[3] = 7.0  # the same vector for each word
    _, *rows = measure.describe_stream(measure.Reader(model, make("transformer"), FEW))
    by_name = {(row["stack"], row["layer"], row["sublayer"]): row for row in rows}
    assert [*by_name][:3] == [
        ("encoder", 1, "attention"), ("encoder", 1, "feed-forward"), ("encoder", 2, "attention")
    ]  # fmt: skip
    nothing, constant = by_name["encoder", 1, "attention"], by_name["encoder", 1, "feed-forward"]
    assert (nothing["ratio"], nothing["changed"]) == (0, 0)
    assert max(row["changed"] for row in rows) > 0
    src, mask, *_ = collate(FEW.examples)
    stream = first.self_residual.norm(model.embed(src, torch.arange(src.shape[1])))[mask]
    lengths = stream.norm(dim=1)
    assert constant["ratio"] == pytest.approx((7 / lengths).mean().item(), rel=1e-4)
    assert constant["cosine"] == pytest.approx((stream[:, 3] / lengths).mean().item(), abs=1e-5)
    assert nothing["ratio_before"] > 0


def test_a_model_without_a_part_has_no_rows() -> None:
    reader = reader_of("bahdanau")
    for name in ("stream", "neurons", "ranks", "plane", "positions"):
        assert measure.MEASURES[name](reader) == []


def test_auc_by_hand() -> None:
    x = torch.tensor([[1.0, 2.0, 2.0, 3.0], [0.0, 1.0, 0.0, 1.0]]).T
    member = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0]]).bool().T
    assert_close(measure.compute_auc(x, member).float(), torch.tensor([[87.5, 0], [100, 50 / 3]]))


def test_a_planted_neuron_is_found_and_shuffled_classes_have_none(monkeypatch: Any) -> None:
    monkeypatch.setattr(measure, "FEWEST", 20)

    def plant(model: Any, batch: Any) -> list[Tensor]:
        x = torch.randn(*batch.src.shape, 40)
        x[..., 17] += 9 * (batch.src == LEXICON.encode(".")[0])
        return [x]

    monkeypatch.setattr(measure, "source_neurons", plant)
    rows = {row["class"]: row for row in measure.describe_neurons(reader_of("gpt", draw(300)))}
    assert (rows["full stop"]["neuron"], rows["full stop"]["auc"] > 99) == (17, True)
    assert abs(rows["verb"]["auc"] - 50) < 15
    assert all(abs(row["control"] - 50) < 20 for row in rows.values())


def test_ranks_of_planted_heads() -> None:
    assert measure.effective_rank(torch.diag(torch.tensor([2.0, 2, 0]))).item() == pytest.approx(2)
    reader = reader_of("gpt")
    weight = reader.model.decoder[1].self_attention.W_qkv.weight.data
    weight[8:16] = torch.outer(torch.arange(1.0, 9), torch.randn(16))  # W_q of the second head
    rows = {(row["layer"], row["head"]): row for row in measure.describe_ranks(reader)}
    assert rows[2, 2]["rank"] == pytest.approx(1, abs=1e-4)
    assert min(rows[2, 1]["rank"], rows[1, 2]["rank"], rows[2, 2]["before"]) > 2


def test_a_head_that_looks_at_a_known_place_is_found() -> None:
    assert measure.pair_articles(PARSE, "encoder") == [(0, 1), (6, 8)]
    assert measure.pair_articles(PARSE, "text") == [(1, 0), (8, 6)]
    assert measure.pair_articles(PARSE, "source") == [(0, 1), (7, 8)]  # eine is German word 7
    w = torch.full((1, 2, 10, 10), 0.125)
    w[0, 1, 1, 0], w[0, 1, 8, 6] = 0.9, 0.6
    head = Attention("text", 1, SimpleNamespace(attention_weights=lambda w: w))
    assert_close(measure.measure_share(head, (w,), [PARSE]), torch.tensor([0.125, 0.75]))


def test_the_plane_keeps_scores_of_two_dimensions() -> None:
    q, k = torch.randn(9, 2).double(), torch.randn(7, 2).double()
    (asks, offers), variance = measure.project_scores(q, k)
    assert_close(asks @ offers.T, q @ (k - k.mean(0)).T)
    assert variance == pytest.approx(100)
    q, k = torch.eye(6).double()[:, :3] * torch.tensor([3.0, 2, 1]), torch.randn(40, 3).double()
    k = torch.linalg.qr(k - k.mean(0))[0]
    assert measure.project_scores(q, k)[1] == pytest.approx(100 * 13 / 14)


@pytest.mark.parametrize(
    ("name", "kinds"), [("gpt", {"decoder"}), ("transformer", {"encoder", "source"})]
)
def test_planes_before_and_after_are_of_the_same_head(name: str, kinds: set[str]) -> None:
    rows = measure.describe_plane(reader_of(name))
    after, before = (row for row in rows if "share" in row)
    assert after["attention"] in kinds
    assert {k: after[k] for k in ("attention", "layer", "head")}.items() <= before.items()
    assert {row["side"] for row in rows if "side" in row} == {"query", "key"}


def test_a_planted_very_is_longer_and_points_one_way(monkeypatch: Any) -> None:
    reader = reader_of("transformer")
    very, table = LEXICON.encode("very")[0], torch.randn(LEXICON.vocab_size, 24)

    def plant(model: Any, batch: Any) -> list[Tensor]:
        x = table[batch.src].clone()
        x[:, 1:] += table[batch.src][:, :-1]
        x[:, 1:, 0] += 40 * (batch.src[:, :-1] == very)
        return [x]

    monkeypatch.setattr(measure, "source_layers", plant)
    (row,) = measure.describe_lengths(reader)
    assert row["ratio"] > 2
    assert row["shift"] > 0.9
    assert abs(row["control"]) < 0.3


def test_what_is_read_later_changes_no_length() -> None:
    """The LSTM reads from the right: it meets the adjective before "very"."""
    for row in measure.describe_lengths(reader_of("lstm_seq2seq")):
        assert (row["ratio"], row["shift"]) == (1, 0)


def test_positions_on_a_circle_have_the_cosine_of_their_angle() -> None:
    reader = reader_of("gpt")
    angle = 2 * math.pi * torch.arange(90) / 80
    table = reader.model.positions.weight.data.zero_()
    table[:, 2], table[:, 5] = 3 * angle.cos() + 1, 3 * angle.sin() - 2
    rows = {
        (row["when"], row["distance"]): row["cosine"] for row in measure.describe_positions(reader)
    }
    for d in (1, 7, 20, 40):
        assert rows["after", d] == pytest.approx(math.cos(2 * math.pi * d / 80), abs=1e-5)
        assert abs(rows["before", d]) < 0.2
    assert measure.describe_positions(reader_of("transformer"))[0]["kind"] == "sinusoids"


def test_words_are_to_come_until_their_last_german_word() -> None:
    assert PARSE.sentence.de_text == "Der Hund, der läuft, muss eine alte Katze sehen."
    said = measure.label_states([PARSE.sentence], [len(PARSE.sentence.de)])
    dog, old = measure.NUMBER["dog"], measure.NUMBER["old"]
    assert said.to_come[:, dog].nonzero().flatten().tolist() == [0, 1]
    assert said.age[:5, dog].tolist() == [0, 0, 1, 2, 3]
    assert said.age[:, old].tolist() == [0] * 9 + [1, 2, 3, 4]
    assert said.is_end.nonzero().flatten().tolist() == [12]
    assert not said.to_come[:, measure.NUMBER["girl"]].any()


@pytest.mark.parametrize("is_kept", [False, True], ids=["deleted", "ticked off"])
def test_deleted_and_ticked_off_words_are_told_apart(is_kept: bool) -> None:
    reader = reader_of("rnn_encdec", draw(240))
    states = reader.states
    said = measure.label_states(states.sentences, [len(s.de) for s in states.sentences])
    planted = torch.cat([said.to_come, (said.age > 0) & is_kept], 1).double()
    states.x = planted + 0.1 * torch.randn(planted.shape).double()
    rows = {row["state"]: row for row in measure.describe_said(reader)}
    assert rows["to come"]["auc"] > 97
    for name in ("1", "5–8", "before EOS"):
        assert (rows[name]["auc"] > 95) == is_kept
        assert abs(rows[name]["control"] - 50) < 20
    dog = [row for row in measure.follow_sentence(reader) if row["word"] == "dog"]
    assert [row["is_to_come"] for row in dog[:4]] == [1, 1, 0, 0]
    assert dog[1]["to_come"] > 25 > 15 > dog[2]["to_come"]
    assert dog[-1]["written"] == "."


LIVE = RESULTS / "translation-live" / "gpt-seed1"


def test_runs_are_measured_and_drawn(
    call: Call, tmp_path: Path, monkeypatch: Any, few_draws: None
) -> None:
    monkeypatch.setattr(words, "N_SENTENCES", 40)
    monkeypatch.setattr(measure, "N_TRANSLATED", 4)
    code, out, _ = call(words, LIVE, "rnn_encdec", "--out", tmp_path)
    assert code == 0
    gpt, shipped = map(load_record, (tmp_path / "gpt-seed1.json", LIVE.with_suffix(".json")))
    assert (gpt.task, gpt.weights_sha256) == ("words", shipped.weights_sha256)
    assert [*gpt.analyses] == [*measure.MEASURES]
    assert len(load.load_records(tmp_path)) == 2
    shared = {"neighbours", "probes", "positions", "said", "sentence"}
    figures = {path.stem for path in tmp_path.glob("*.svg")}
    assert shared | {"stream-gpt", "plane-gpt"} <= figures
    assert "stream-rnn_encdec" not in figures
    assert str(tmp_path / "sentence.svg") in out


def test_a_run_on_other_sentences_is_refused(call: Call, trained: Path, tmp_path: Path) -> None:
    code, _, error = call(words, trained / "gpt-seed1", "--out", tmp_path / "new")
    assert code == 2
    assert "does not read the built-in grammar word by word; give a run of tasks." in error
    code, _, error = call(words, "gpt", LIVE, "--out", tmp_path)
    assert (code, "have the same name" in error) == (2, True)
    with pytest.raises(ValueError, match="words measures trained runs; give them to: "):
        compare("words")


def test_what_is_measured_by_default_is_shipped() -> None:
    names = words.PARSER.parse_args([]).runs
    assert "gpt" in names
    assert all(find_record(name).exists() for name in names)
