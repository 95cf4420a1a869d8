"""One run: its width, its first weights, and what its record holds."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ATTENDING, TINY, n_positions
from safetensors.torch import load_file
from toy_task import TOKENIZER, flags, same, toy

from seqmodels import EOS, MODELS, SequenceModel, build
from seqmodels.comparison import compare, runs, task, trained
from seqmodels.comparison.arm import count_parameters, fit_width, unchanged
from seqmodels.data import tokenizers
from seqmodels.data.batches import Example
from seqmodels.evaluation import intervals, metrics
from seqmodels.records import record
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig
from tasks import recipes
from tasks.next_token import __main__ as next_token
from tasks.recall import __main__ as recall
from tasks.translation import __main__ as translation

ROOT = Path(__file__).parents[1]


# ------------------------------------------------------------------------------------------- widths


RECIPES = {
    "translation": translation.RECIPES,
    "grammar": recipes.GRAMMAR,
    "recall": recall.RECIPES,
    "next_token": next_token.RECIPES,
    "plays": next_token.PLAYS,
}


@pytest.mark.parametrize(
    ("task", "vocab_size", "n_parameters"),
    [
        ("recall", 71, 500_000),
        ("grammar", 979, 1_000_000),
        ("translation", 900, 1_000_000),
        ("next_token", 350, 1_000_000),
        ("next_token", 2_000, 1_500_000),
        ("plays", 69, 810_000),
        ("translation", 4_000, 3_000_000),
    ],
)
def test_widths_make_models_equal(name: str, task: str, vocab_size: int, n_parameters: int) -> None:
    """Keeps out a comparison of a large model with a small one: every task's recipes, to 5 %."""
    recipe = {**n_positions(name, 512), **RECIPES[task][name].sizes}
    sizes = fit_width(name, vocab_size, n_parameters, **recipe)
    with torch.device("meta"):
        n = count_parameters(build(name, vocab_size, **sizes))
    assert abs(n / n_parameters - 1) <= 0.05


def test_widths_are_found_at_once() -> None:
    """Keeps out 800 modules, and seconds, that torch imports to fill parameters nobody reads."""
    program = (
        "import sys\nfrom seqmodels.comparison.arm import fit_width\n"
        "from tasks.recipes import COPYING as RECIPES\n"
        "before = len(sys.modules)\n"
        "for name, recipe in RECIPES.items(): fit_width(name, 71, 500_000, **recipe.sizes)\n"
        "print(len(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100


def test_a_size_that_cannot_be_is_said(name: str) -> None:
    """Keeps out a model that is silently larger than the others: embeddings alone are too many."""
    sizes = RECIPES["translation"][name].sizes
    with pytest.raises(ValueError, match=f"{name} has no width within 5 % of 100,000"):
        fit_width(name, 50_000, 100_000, **sizes)


def test_a_size_that_is_nearly_right_is_not_right() -> None:
    """Keeps out a tolerance that grows: 7 % more than the narrowest LSTM there is, and it is so."""
    with torch.device("meta"):
        narrowest = count_parameters(build("lstm_seq2seq", 900, d_model=16, d_embed=128))
    with pytest.raises(ValueError, match="no width within 5 %"):
        fit_width("lstm_seq2seq", 900, int(narrowest / 1.07), d_embed=128)
    found = fit_width("lstm_seq2seq", 900, int(narrowest / 1.04), d_embed=128)
    assert found["d_model"] == 16


# --------------------------------------------------------------------------------------- the record


def test_a_record_says_all(name: str, compared: Path) -> None:
    """Keeps out a result that nobody can check or draw: what ran, on what, with which result."""
    made = record.load(compared / f"{name}-seed1.json")
    assert (made["task"], made["model"], made["seed"], made["beam"]) == ("again", name, 1, 1)
    with torch.device("meta"):
        model = build(name, **made["model_config"])
    assert made["n_parameters"] == count_parameters(model)
    assert abs(made["n_parameters"] / 400_000 - 1) <= 0.05
    assert TrainConfig(**made["train_config"]).tokens == 200
    assert made["data"] == toy().data
    where = made["provenance"]
    assert where.keys() >= {"date", "commit", "versions", "system", "device", "threads"}
    assert where["versions"]["torch"] == torch.__version__
    assert {"python", "numpy", "sacrebleu"} <= where["versions"].keys()
    assert where["device"]
    assert [p["tokens"] for p in made["curve"]] == sorted(p["tokens"] for p in made["curve"])
    assert {"step", "seconds", "train_nats", "valid_nats", "valid_accuracy"} < {*made["curve"][0]}
    assert min(made["speed"].values()) > 0
    assert made["peak_memory_bytes"] > 1e6
    assert made["train_s"] > 0 < made["evaluate_s"]
    assert made["signatures"].keys() == {"bleu", "chrf"}
    assert [n for n, _ in made["cache_bytes"]][:3] == [8, 16, 32]
    weights = (compared / f"{name}-seed1.safetensors").read_bytes()
    assert made["weights_sha256"] == hashlib.sha256(weights).hexdigest()


def test_the_record_holds_what_was_measured(name: str, compared: Path) -> None:
    """Keeps out speeds upside down, the size that was asked for, and settings of another run."""
    made = record.load(compared / f"{name}-seed1.json")
    point = made["curve"][-1]
    speed = made["speed"]
    assert speed["evaluate_sentences_per_s"] == pytest.approx(12 / made["evaluate_s"])
    assert speed["train_tokens_per_s"] == pytest.approx(point["tokens"] / point["seconds"])
    assert made["train_s"] == point["seconds"]


def test_a_seed_draws_the_first_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out seeds that start from the same weights, and weights that depend on what ran."""
    starts = []

    def stop(run: runs.Run, model: SequenceModel, *_: Any) -> None:
        starts.append({k: v.clone() for k, v in model.state_dict().items()})
        raise InterruptedError

    monkeypatch.setattr(runs, "train_run", stop)
    for seed in (3, 5, 3):
        cfg = TrainConfig(tokens=200, lr=0.1, seed=seed)
        run = runs.Run(unchanged("bahdanau"), toy(), cfg, tmp_path / "run.json", "cpu", 30.0)
        with pytest.raises(InterruptedError):
            runs.run_one(run)
        torch.rand(9)
    assert same(starts[0], starts[2])
    assert not same(starts[0], starts[1])


def test_both_kinds_of_score_are_kept_by_length(name: str, compared: Path) -> None:
    """Keeps out a table by length without counts, or without one of the two kinds of score."""
    path = compared / f"{name}-seed1.json"
    (test,) = record.load(path)["tests"]
    kinds = {"nats", "bits_per_byte", "token_accuracy", "exact_match", "accuracy", "bleu", "chrf"}
    kinds |= {"length_ratio", "chance_bleu", "source_gain", "perplexity"}
    assert test["overall"].keys() == kinds
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == [(1, 4, 6), (5, 9, 6)]
    assert all(b.keys() > kinds for b in test["buckets"])
    rows = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    assert len(rows) == 12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "N_BOOTSTRAP", 20)
        assert metrics.compute_scores(rows) == test["overall"]  # the rows are enough to score again


def test_both_sizes_of_the_state_are_kept(name: str, compared: Path) -> None:
    """Keeps out the caches of this implementation recorded as what the paper hands over."""
    made = record.load(compared / f"{name}-seed1.json")
    kept = dict(made["cache_bytes"])
    config = MODELS[name].config_type(**made["model_config"])
    for n, n_bytes in made["source_bytes"]:
        assert n_bytes == 4 * config.source_floats(n) <= kept[n]
    assert [n for n, _ in made["source_bytes"]] == [*kept]
    if name == "transformer":  # one vector a word, against keys and values of every layer
        assert all(2 * config.n_layers * n <= kept[s] for s, n in made["source_bytes"])


def test_alignments_are_kept_where_there_are_any(name: str, compared: Path) -> None:
    """Keeps out a heat map of a model that does not attend, and one with EOS in it."""
    kept, example = (
        record.load(compared / f"{name}-seed1.json")["alignment"],
        toy().alignment_example.example,
    )
    assert (kept is not None) == (name in ATTENDING)
    if kept:
        assert kept["src"] == kept["tgt"] == TOKENIZER.tokens(example.src)
        assert np.shape(kept["alpha"]) == (len(kept["tgt"]), len(kept["src"]))
        assert kept["gold"] == [[0, 0]]


def test_a_run_can_be_used_again(name: str, compared: Path) -> None:
    """Keeps out weights or a tokenizer that are not those of the record."""
    path = compared / f"{name}-seed1.json"
    made = record.load(path)
    model = trained.load_model(made, path.with_suffix(".safetensors"))
    found = loop.validate(model, toy().valid, "cpu")
    best = min(point["valid_nats"] for point in made["curve"])
    assert found["valid_nats"] == pytest.approx(best, rel=1e-6)
    assert tokenizers.load(compared / "tokenizer.json").labels == TOKENIZER.labels


def test_bytes_are_those_of_the_text() -> None:
    """Keeps out three bytes for each half of a letter: bits per byte would be too few."""
    tokenizer = tokenizers.Bytes()
    ids = tokenizer.encode("aä")
    examples = [Example(ids, [*ids, EOS]), Example(ids[:2], ids[:2]), Example(ids, ids[2:])]
    test = task.TestSet(
        name="cut", axis="", unit="bytes", primary_metric="nats", examples=examples,
        x=[1] * 3, buckets=[(1, 1)], is_generated=False,
    )  # fmt: skip
    model = build("gpt", tokenizer.vocab_size, **TINY["gpt"])
    rows, _ = runs.evaluate(model, toy(tokenizer=tokenizer), test, "cpu")
    assert [row["n_bytes"] for row in rows] == [4, 2, 1]  # the end of a text counts as a byte
    assert TOKENIZER.n_bytes(TOKENIZER.encode("a b c")) == 5


SAID = [("Äh, ba", "für a"), ("ba", "b"), ("c", "a ä")]
"""Texts that the tokens do not give back."""


def evaluated(
    monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> tuple[list[dict[str, Any]], dict[str, Any], list[int]]:
    """Score three known rows; return them, the record's entry, and the beams asked for."""
    examples = [
        Example([4, 5], [4, 5, EOS]), Example([6], [5, 6], frozenset({0})), Example([4], [4, EOS]),
    ]  # fmt: skip
    taught = [(6.0, 3, 1), (1.0, 1, 1), (2.0, 2, 2)]
    rows = [dict(zip(("nats", "n_tokens", "n_correct"), row, strict=True)) for row in taught]
    beams: list[int] = []
    written = [[4, 5], [6], [5]]
    monkeypatch.setattr(runs, "score_teacher_forced", lambda *_, **_given: rows)
    monkeypatch.setattr(
        runs, "generate_targets", lambda model, examples, beam, *_: beams.append(beam) or written
    )
    fields: dict[str, Any] = {
        "name": "seen", "axis": "words", "unit": "words", "primary_metric": "nats",
        "examples": examples, "x": [2, 1, 1], "buckets": [(1, 1), (2, 3)],
    }  # fmt: skip
    test = task.TestSet(**fields | changes)
    return *runs.evaluate(build("gpt", 11, **TINY["gpt"]), toy(beam=2), test, "cpu"), beams


def test_a_row_is_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out decoded texts for the originals, characters for bytes, a width that is not used."""
    rows, entry, beams = evaluated(monkeypatch, texts=SAID, beam=3)
    assert beams == [3] == [entry["beam"]]
    assert [(row["src"], row["ref"]) for row in rows] == SAID
    assert [row["hyp"] for row in rows] == ["a b", "c", "b"]
    assert [row["n_bytes"] for row in rows] == [6 + 1, 1, 4 + 1]  # an end counts as a byte
    assert [row["exact_match"] for row in rows] == [True, False, False]
    assert [(b["low"], b["n"]) for b in entry["buckets"]] == [(1, 2), (2, 1)]
    assert entry["overall"]["nats"]["value"] == pytest.approx(9 / 6)


def test_a_row_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out given places in a reference, half a target called exact, a perplexity of bits."""
    rows, entry, beams = evaluated(
        monkeypatch, is_generated=False, primary_metric="perplexity", groups=[7, 8, 7]
    )
    assert (beams, "beam" in entry) == ([], False)
    assert [row["ref"] for row in rows] == ["a b", "c", "a"]
    assert [row["n_bytes"] for row in rows] == [3 + 1, 1, 1 + 1]
    assert [row["exact_match"] for row in rows] == [False, True, True]
    assert [row["group"] for row in rows] == [7, 8, 7]
    for part in (entry["overall"], *entry["buckets"]):
        assert part["perplexity"]["value"] == pytest.approx(math.exp(part["nats"]["value"]))


# ------------------------------------------------------------------------------------- the analyses


def moved(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, float | str]]:
    """Return how far each parameter has moved in training, and whether dropout is on."""
    before = untrained.state_dict()
    return [
        {"parameter": key, "distance": (value - before[key]).norm().item(),
         "start": before[key].norm().item(), "dropout": float(model.training)}
        for key, value in model.state_dict().items()
    ]  # fmt: skip


def test_analyses_measure_before_and_after(tmp_path: Path, undrawn: None) -> None:
    """Keeps out an analysis of the wrong model: untrained, with dropout, or of another seed."""
    task = toy(measure={"moved": moved})
    compare.compare(task, flags(tmp_path, models=["rnn_encdec"], seeds=[1, 2]))
    for seed in (1, 2):
        made = record.load(tmp_path / f"rnn_encdec-seed{seed}.json")
        torch.manual_seed(seed)
        start = build("rnn_encdec", **made["model_config"]).state_dict()
        rows = {row["parameter"]: row for row in made["analyses"]["moved"]}
        weights = load_file(tmp_path / f"rnn_encdec-seed{seed}.safetensors")
        for key, row in rows.items():
            assert row["start"] == pytest.approx(start[key].norm().item())
            assert row["distance"] == pytest.approx((weights[key] - start[key]).norm().item())
            assert row["dropout"] == 0
        assert max(row["distance"] for row in rows.values()) > 0.01
