"""One run: its record and its scores, its cost, and a trained run in a program of one's own."""

import copy
import hashlib
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from conftest import ATTENDING, ROOT, TINY, Call, rows_of
from fake_records import fake_rows
from sacrebleu.metrics import BLEU, CHRF
from safetensors.torch import load_file
from toys import TOKENIZER, flags, toy

import seqmodels
from seqmodels import BOS, EOS, MODELS, SequenceModel, build
from seqmodels.cli import main
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example
from seqmodels.evaluation import metrics
from seqmodels.evaluation.evaluate import score_teacher_forced
from seqmodels.experiments import compare, inference, runs, specs
from seqmodels.experiments.inference import TrainedModel, load_model
from seqmodels.records import io as record
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from seqmodels.utils import files


def test_a_width_is_within_five_percent() -> None:
    """Keeps out a model that is silently larger than the others, and a tolerance that grows."""
    with torch.device("meta"):
        narrowest = specs.count_parameters(build("lstm_seq2seq", 900, d_model=16, d_embed=128))
    with pytest.raises(ValueError, match="no width within 5 %"):
        specs.fit_width("lstm_seq2seq", 900, int(narrowest / 1.06), d_embed=128)
    sizes = specs.fit_width("lstm_seq2seq", 900, int(narrowest / 1.04), d_embed=128)
    assert sizes["d_model"] == 16


def test_a_record_is_complete(name: str, compared: Path, few_draws: None) -> None:
    """Keeps out a result that nobody can check, score again or use: every field is derived anew."""
    path = compared / f"{name}-seed1.json"
    saved, weights = record.load(path), path.with_suffix(".safetensors")
    assert (saved["task"], saved["model"], saved["seed"], saved["beam"]) == ("again", name, 1, 1)
    config = MODELS[name].config_type(**saved["model_config"])
    with torch.device("meta"):
        assert saved["n_parameters"] == specs.count_parameters(MODELS[name](config))
    assert abs(saved["n_parameters"] / 400_000 - 1) <= 0.05
    assert TrainConfig(**saved["train_config"]).tokens == 200
    assert saved["data"] == toy().data
    assert saved["provenance"].keys() >= {"date", "commit", "system", "device", "threads"}
    assert saved["provenance"]["versions"]["torch"] == torch.__version__
    assert saved["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    # speed
    last = saved["curve"][-1]
    assert saved["train_s"] == last["seconds"] > 0
    assert saved["speed"]["train_tokens_per_s"] == pytest.approx(last["tokens"] / last["seconds"])
    assert saved["speed"]["evaluate_sentences_per_s"] == pytest.approx(12 / saved["evaluate_s"])
    assert saved["peak_memory_bytes"] > 1e8  # of torch alone
    # the state, as the paper hands it over and as this implementation caches it
    cache_bytes = dict(saved["cache_bytes"])
    assert [*cache_bytes][:3] == [8, 16, 32] == [n for n, _ in saved["source_bytes"]][:3]
    for n, n_bytes in saved["source_bytes"]:
        assert n_bytes == 4 * config.source_floats(n) <= cache_bytes[n]
    # scores
    (test,) = saved["tests"]
    names = {"nats", "bits_per_byte", "token_accuracy", "exact_match", "accuracy", "bleu", "chrf"}
    names |= {"length_ratio", "chance_bleu", "source_gain", "perplexity"}
    assert test["overall"].keys() == names
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == [(1, 4, 6), (5, 9, 6)]
    assert all(b.keys() > names for b in test["buckets"])
    rows = rows_of(path)
    assert len(rows) == 12
    assert metrics.compute_scores_by_bucket(rows, ())[0] == test["overall"]
    # the alignment
    alignment, example = saved["alignment"], toy().alignment_example.example
    assert (alignment is not None) == (name in ATTENDING)
    if alignment:
        assert alignment["src"] == alignment["tgt"] == TOKENIZER.tokens(example.src)
        assert np.shape(alignment["alpha"]) == (len(alignment["tgt"]), len(alignment["src"]))
        assert alignment["gold"] == [[0, 0]]
    # the model itself
    scores = loop.validate(inference.load_model(saved, weights), toy().valid, "cpu")
    best = min(point["valid_nats"] for point in saved["curve"])
    assert scores["valid_nats"] == pytest.approx(best, rel=1e-6)


def test_bytes_are_those_of_the_text() -> None:
    """Keeps out three bytes for each half of a letter: bits per byte would be too few."""
    tokenizer = tokenizers.Bytes()
    ids = tokenizer.encode("aä")
    examples = [Example(ids, [*ids, EOS]), Example(ids[:2], ids[:2]), Example(ids, ids[2:])]
    test = replace(toy().tests[0], examples=examples, x=[1] * 3, is_generated=False)
    model = build("gpt", tokenizer.vocab_size, **TINY["gpt"])
    rows, _ = runs.evaluate(model, toy(tokenizer=tokenizer), test, "cpu")
    assert [row["n_bytes"] for row in rows] == [4, 2, 1]  # the end of a text counts as a byte


TEXTS = [("Äh, ba", "für a"), ("ba", "b"), ("c", "a ä")]  # which the tokens do not give back


def evaluate(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[Any, Any, list[int]]:
    """Score three rows of given losses; return them, the record's entry, and the beams used."""
    examples = [
        Example([4, 5], [4, 5, EOS]), Example([6], [5, 6], frozenset({0})), Example([4], [4, EOS]),
    ]  # fmt: skip
    losses = [(6.0, 3, 1), (1.0, 1, 1), (2.0, 2, 2)]
    rows = [dict(zip(("nats", "n_tokens", "n_correct"), row, strict=True)) for row in losses]
    beams: list[int] = []

    def generate(model: Any, examples: Any, beam: int, *_: Any) -> list[list[int]]:
        beams.append(beam)
        return [[4, 5], [6], [5]]

    monkeypatch.setattr(runs, "score_teacher_forced", lambda *_, **_given: rows)
    monkeypatch.setattr(runs, "generate_targets", generate)
    fields = {"examples": examples, "x": [2, 1, 1], "buckets": [(1, 1), (2, 3)]}
    test = replace(toy().tests[0], **fields | changes)
    return *runs.evaluate(build("gpt", 11, **TINY["gpt"]), toy(beam=2), test, "cpu"), beams


def test_a_row_holds_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out decoded texts for the originals, characters for bytes, another beam."""
    rows, entry, beams = evaluate(monkeypatch, texts=TEXTS, beam=3)
    assert beams == [3] == [entry["beam"]]
    assert [(row["src"], row["ref"]) for row in rows] == TEXTS
    assert [row["hyp"] for row in rows] == ["a b", "c", "b"]
    assert [row["n_bytes"] for row in rows] == [6 + 1, 1, 4 + 1]  # an end counts as a byte
    assert [row["exact_match"] for row in rows] == [True, False, False]
    assert [(b["low"], b["n"]) for b in entry["buckets"]] == [(1, 2), (2, 1)]
    assert entry["overall"]["nats"]["value"] == pytest.approx(9 / 6)
    assert evaluate(monkeypatch)[2] == [2]


def test_a_row_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out given places in a reference, half a target called exact, a perplexity of bits."""
    rows, entry, beams = evaluate(
        monkeypatch, is_generated=False, primary_metric="perplexity", groups=[7, 8, 7],
        baseline=[0.5, 0.25, 0.0],
    )  # fmt: skip
    assert (beams, "beam" in entry) == ([], False)
    assert [row["ref"] for row in rows] == ["a b", "c", "a"]
    assert [row["n_bytes"] for row in rows] == [3 + 1, 1, 1 + 1]
    assert [row["exact_match"] for row in rows] == [False, True, True]
    assert [row["group"] for row in rows] == [7, 8, 7]
    assert [row["baseline"] for row in rows] == [0.5, 0.25, 0.0]
    for part in (entry["overall"], *entry["buckets"]):
        assert part["perplexity"]["value"] == pytest.approx(math.exp(part["nats"]["value"]))


def totals(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, float]]:
    """Return the sums of all weights before and after training, and whether dropout is on."""
    before, after = (sum(p.sum().item() for p in m.parameters()) for m in (untrained, model))
    return [{"before": before, "after": after, "dropout": float(model.training)}]


def test_analyses_measure_before_and_after(tmp_path: Path, undrawn: None, few_draws: None) -> None:
    """Keeps out an analysis of the wrong model: untrained, with dropout, or of another seed."""
    measured = toy(measure={"totals": totals})
    compare.compare(measured, flags(tmp_path, models=["rnn_encdec"], seeds=[2]))
    saved = record.load(tmp_path / "rnn_encdec-seed2.json")
    torch.manual_seed(2)
    start = build("rnn_encdec", **saved["model_config"]).state_dict()
    weights = load_file(tmp_path / "rnn_encdec-seed2.safetensors")
    before, after = (sum(w.sum().item() for w in own.values()) for own in (start, weights))
    expected = {"before": before, "after": after, "dropout": 0}
    assert saved["analyses"]["totals"] == [pytest.approx(expected)]
    assert abs(before - after) > 0.01


# --------------------------------------------------------------------------------------- The record
def test_a_record_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out a record before its hypotheses, letters as escapes, and another version."""
    suffixes, replace = [], files.write

    def write(path: Path, content: str | bytes) -> Path:
        suffixes.append(path.name.removeprefix("gpt-seed1"))
        return replace(path, content)

    monkeypatch.setattr(files, "write", write)
    rows = [row | {"hyp": "a\u2028b"} for row in fake_rows(1, 0.5)]
    rows[0] |= {"hyp": "Bär"}
    saved = record.load(ROOT / "results" / "translation-grammar" / "gpt-seed1.json")
    saved["tests"][0] |= {"primary_metric": "nats"}
    path = tmp_path / "gpt-seed1.json"
    record.save(path, saved, rows)
    assert record.load(path) == saved
    lines = path.with_suffix(".jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["hyp"] for line in lines[:2]] == ["Bär", "a\u2028b"]
    assert "Bär" in lines[0]
    assert suffixes == [".jsonl", ".sums.json.gz", ".json"]
    path.write_text('{"schema": "seqmodels.record/3"}')
    with pytest.raises(ValueError, match=r"'seqmodels\.record/3'"):
        record.load(path)


# --------------------------------------------------------------------------------------- Operations
V, D = 11, 8
CFG = TrainConfig(tokens=1, lr=1.0, batch_tokens=64)


def test_the_transformer_by_its_formula() -> None:
    """Keeps out fused attention or a backward pass uncounted, pads as free, and whole batches."""
    S, T, ff = 6, 5, 16
    sizes = {"d_model": D, "d_ff": ff, "n_heads": 2, "n_layers": 1, "dropout": 0.0}
    model = build("transformer", V, **sizes)
    examples = [Example([4] * S, [5] * T)] * (2 * runs.N_ROWS)
    attention = 2 * S * S * D + 2 * T * T * D + 2 * T * S * D  # scores and mixtures
    projections = 4 * S * D * D + 4 * T * D * D + (2 * T + 2 * S) * D * D
    macs = attention + projections + 2 * (S + T) * D * ff + T * D * V
    assert runs.flops_per_token(model, examples, CFG) == 3 * 2 * macs / T
    assert all(p.grad is None for p in model.parameters())
    most = [e._replace(unscored=frozenset([0])) for e in examples]  # all but one are scored
    assert runs.flops_per_token(model, most, CFG) == 3 * 2 * macs / (T - 1)
    n_rows: list[int] = []
    model.register_forward_pre_hook(lambda _, given: n_rows.append(len(given[0])))
    runs.flops_per_token(model, [Example([4], [5] * (1 + i % 7)) for i in range(200)], CFG)
    assert max(n_rows) <= runs.N_ROWS


# ------------------------------------------------------------------------------------ A trained run
FOLDER = ROOT / "results" / "translation-live"
SOURCES = ["The cat sees the dog.", "Although it rained, the man slept.", "They sing."]
REFERENCES = ["Die Katze sieht den Hund.", "Obwohl es regnete, schlief der Mann.", "Sie singen."]


@pytest.fixture(scope="module")
def run() -> TrainedModel:
    return seqmodels.load(FOLDER / "bahdanau-seed1")


def with_data(run: TrainedModel, **data: Any) -> TrainedModel:
    """Return the run as if it had been trained on data with other properties."""
    return TrainedModel(run.model, run.tokenizer, run.record | {"data": run.record["data"] | data})


def test_translations_are_the_commands(run: TrainedModel, call: Call, monkeypatch: Any) -> None:
    """Keeps out two ways to translate, texts or log p of others, and a beam or penalty unused."""
    path = FOLDER / "bahdanau-seed1"
    printed = [call(main, "translate", path, text, "--beam", 4)[1][:-1] for text in SOURCES]
    assert run.translate(SOURCES, beam=4) == printed
    assert len(set(printed)) == 3
    assert run.translate([]) == []
    lines = [SOURCES[1], "", SOURCES[0]]
    monkeypatch.setattr(main, "LINES_AT_ONCE", 2)
    given = "--beam", 4, "--n-best", 3, "--length-penalty", 0
    code, out, _ = call(main, "translate", FOLDER / "bahdanau-seed1", "\n".join(lines), *given)
    rows = [row.split("\t") for row in out.splitlines()]
    assert (code, [row[0] for row in rows]) == (0, [*"1112333"])

    def best_of(n: int, *texts: str, length_penalty: float) -> list[list[tuple[str, float]]]:
        found = run.search_n_best([*map(run.encode_line, texts)], n, 4, length_penalty)
        return [[(run.tokenizer.decode(h.tokens), h.log_p) for h in best] for best in found]

    best = best_of(3, *lines, length_penalty=0)
    flat = [[f"{log_p:z.4f}", text] for texts in best for text, log_p in texts]
    assert flat == [row[1:] for row in rows]
    _, out, _ = call(main, "translate", path, "\n".join(lines), *given, "--json")
    found = [[*json.loads(line).values()] for line in out.splitlines()]
    exact = [pytest.approx(log_p, rel=1e-4) for texts in best for _, log_p in texts]
    assert found == [[int(n), p, text] for (n, _, text), p in zip(rows, exact, strict=True)]
    assert [texts[0][0] for texts in best] == run.translate(lines, beam=4, length_penalty=0)
    for line, texts in zip(lines[::2], best[::2], strict=True):
        example = Example(run.encode_source(line), [*run.encode(texts[1][0]), EOS])
        (row,) = score_teacher_forced(run.model, [example])
        assert texts[1][1] == pytest.approx(-row["nats"], rel=1e-4)
        assert sorted(texts, key=lambda one: -one[1]) == texts  # without a penalty
    (long,) = best_of(4, lines[0], length_penalty=10)
    assert len(long[0][0]) > len(long[-1][0])


def test_a_loaded_run_drops_nothing(run: TrainedModel) -> None:
    """Keeps out dropout in what a trained run writes and attends to."""
    sizes = run.record["model_config"] | {"dropout": 0.5}
    model = load_model(run.record | {"model_config": sizes}, FOLDER / "bahdanau-seed1.safetensors")
    src = torch.tensor([run.encode(SOURCES[0])])
    first, second = (model(src, src > 0, src) for _ in range(2))
    assert torch.equal(first, second)


def test_each_line_is_a_sentence(
    run: TrainedModel, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps out a lost second line, a sentence invented for a blank one, and a chunk's end."""
    first, second, third = run.translate(SOURCES)
    lines = [SOURCES[0], "", SOURCES[1], " \t", SOURCES[2]]
    wanted = [first, "", second, "", third]
    assert run.translate(["\n".join(lines[:3]), "", SOURCES[2]]) == [
        "\n".join(wanted[:3]), "", third
    ]  # fmt: skip
    (tmp_path / "lines").write_text("".join(f"{line}\r\n" for line in lines))
    encode = Mock(side_effect=type(run.tokenizer).encode)
    monkeypatch.setattr(type(run.tokenizer), "encode", lambda self, text: encode(self, text))
    monkeypatch.setattr(main, "LINES_AT_ONCE", 2)
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code, out, err = call(main, "translate", FOLDER / "bahdanau-seed1", "--beam", 1)
    assert encode.call_count == 3
    assert (code, out.split("\n")) == (0, [*wanted, ""])
    assert err.startswith("2 of 17 words ")  # of all lines


def test_the_source_is_read_as_in_training(run: TrainedModel, few_draws: None) -> None:
    """Keeps out an EOS or capitals that training had not, and a source without its EOS."""
    words = run.tokenizer.encode(SOURCES[0])
    for end, expected in (("EOS", [*words, EOS]), ("none", words), (None, words)):
        assert with_data(run, source_end=end).encode_source(SOURCES[0]) == expected
    assert with_data(run, source_end="none").encode_source("") == [BOS]
    assert run.encode_source(SOURCES[0], has_source_eos=False) == words

    lower, (source, *_), (reference, *_) = with_data(run, case="lower"), SOURCES, REFERENCES
    assert run.encode_source(source) != run.encode_source(source.lower())
    assert lower.encode_source(source) == run.encode_source(source.lower())
    assert lower.align(source, reference).tgt == run.align(source, reference.lower()).tgt
    for tested, is_good in ((run, False), (lower, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tested, "translate", lambda *_: [reference.lower()])
            score = tested.score([source], [reference.upper()])["bleu"]["value"]
        assert (score > 50) is is_good


def test_an_alignment_is_that_of_the_model(run: TrainedModel) -> None:
    """Keeps out weights of another pass, transposed ones, and words beside the wrong edge."""
    model = copy.deepcopy(run.model)
    for parameter in model.parameters():  # so that no two weights are equal
        parameter.data += 0.1 * torch.randn(parameter.shape)
    run = TrainedModel(model, run.tokenizer, run.record)
    src, tgt, weights = run.align(SOURCES[1], REFERENCES[0])
    assert src == [*run.tokenizer.tokens(run.tokenizer.encode(SOURCES[1])), "<eos>"]
    target = run.tokenizer.encode(REFERENCES[0])
    assert tgt == run.tokenizer.tokens(target)
    assert weights.shape == (len(tgt), len(src))
    assert len(tgt) != len(src)
    assert np.allclose(weights.sum(1), 1, atol=1e-5)
    ids, tgt_in = torch.tensor([run.encode_source(SOURCES[1])]), torch.tensor([[BOS, *target[:-1]]])
    with torch.inference_mode():
        expected = run.model.align(ids, ids > 0, tgt_in)[0]
    assert np.allclose(weights, expected.numpy(), atol=1e-6)
    greedy = run.search([run.encode_source(SOURCES[0])])[0]
    assert run.align(SOURCES[0]).tgt == run.tokenizer.tokens(greedy)


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_scores_are_sacrebleus(tokenize: str, run: Any, monkeypatch: Any, few_draws: None) -> None:
    """Keeps out scores of other texts, swapped sides, and another tokenizer than the run's."""
    hypotheses = [run.tokenizer.encode(f"{text} {text}") for text in REFERENCES]
    written = {2: hypotheses}
    monkeypatch.setattr(
        inference, "generate_targets", lambda model, texts, beam, **_: written[beam]
    )
    run = with_data(run, bleu_tokenize=tokenize)
    texts = run.translate(SOURCES, beam=2)
    scores = run.score(SOURCES, REFERENCES, beam=2)
    bleu = BLEU(tokenize=tokenize, force=True).corpus_score(texts, [REFERENCES]).score
    assert scores["bleu"]["value"] == pytest.approx(bleu) != 0
    assert scores["chrf"]["value"] == pytest.approx(CHRF().corpus_score(texts, [REFERENCES]).score)
    assert scores["n"] == 3
    assert f"tok:{tokenize}" in scores["signatures"]["bleu"]


def test_mistakes_are_named(run: TrainedModel) -> None:
    """Keeps out a text that is taken for a list of characters, and tracebacks out of torch."""
    for method, *given, match in (
        (run.translate, "The cat sleeps.", "list of texts"),
        (run.score, SOURCES, REFERENCES[0], "list of texts"),
        (run.score, SOURCES, REFERENCES[:2], "3 sources and 2 references"),
        (run.score, [], [], "0 sources"),
        (run.translate, SOURCES, 0, "beam of 0"),
        (run.translate, SOURCES, 1, 0.5, "2 or more"),
        (run.search_n_best, [], 3, 2, "3 best of a beam of 2"),
        (run.align, SOURCES[0], "", "empty"),
        (seqmodels.load(FOLDER / "lstm_seq2seq-seed1").align, SOURCES[0], "one vector"),
        (seqmodels.load, FOLDER / "nothing-seed1", "nothing-seed1"),
    ):
        with pytest.raises(ValueError, match=match):
            method(*given)


def test_the_readmes_lines_run(monkeypatch: Any, capsys: Any, few_draws: None) -> None:
    """Keeps out lines for a notebook that were never tried as they are written, from a clone."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(block, names)
    translated, alignment = capsys.readouterr().out.splitlines()
    assert translated.startswith(f"['{names['reference']}'] {{'n': 1, 'bleu': {{'value': 100.0")
    assert "('Pferd', 'horse')" in alignment


def test_the_documented_lines_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out lines that were never tried, links to EOS, and source and target swapped."""
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(import seqmodels\n.*?)^```$", text, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "mine").symlink_to(FOLDER)
    (tmp_path / "test.en").write_text("The girl has needed the horse\n")
    (tmp_path / "test.de").write_text("Das Mädchen hat das Pferd gebraucht\n", encoding="utf-8")
    exec(block, {})
    assert {"1-1", "2-2", "5-4"} < {*(tmp_path / "mine.out").read_text().split()}
