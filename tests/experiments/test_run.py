"""One run: its rows and scores, the operations of its training, and its record."""

import hashlib
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ATTENDING, TINY, fields_of, rows_of
from safetensors.torch import load_file
from toys import TOKENIZER, options, stopped_after, toy

from seqmodels import BOS, EOS, MODELS, SequenceModel, build
from seqmodels.data.batches import Example
from seqmodels.evaluation import metrics
from seqmodels.experiments import run as one_run
from seqmodels.experiments.launch import compare
from seqmodels.experiments.run import score_test_set
from seqmodels.experiments.sweep import count_parameters
from seqmodels.models import registry
from seqmodels.records import io as record
from seqmodels.training import loop
from seqmodels.training.checkpoint import load_model


def test_a_record_is_complete(name: str, compared: Path, few_draws: None) -> None:
    path = compared / f"{name}-seed1.json"
    saved, weights = fields_of(path), path.with_suffix(".safetensors")
    assert (saved["task"], saved["model"], saved["seed"], saved["beam"]) == ("again", name, 1, 1)
    model = MODELS[name](MODELS[name].config_type(**saved["model_config"]))
    assert saved["n_parameters"] == count_parameters(model)
    assert abs(saved["n_parameters"] / 400_000 - 1) <= 0.05
    assert (saved["data"], saved["events"]) == (toy().data, [])
    assert saved["provenance"]["versions"]["torch"] == torch.__version__
    assert saved["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    # speed
    last = saved["curve"][-1]
    assert saved["train_s"] == last["seconds"] > 0
    assert saved["speed"]["train_tokens_per_s"] == pytest.approx(last["tokens"] / last["seconds"])
    assert saved["speed"]["evaluate_sentences_per_s"] == pytest.approx(13 / saved["evaluate_s"])
    # the state, as the paper hands it over and as this implementation caches it
    cache_bytes = dict(saved["cache_bytes"])
    assert [*cache_bytes][:3] == [8, 16, 32] == [n for n, _ in saved["source_bytes"]][:3]
    for n, n_bytes in saved["source_bytes"]:
        assert n_bytes == 4 * model.source_floats(n) <= cache_bytes[n]
    # scores
    (test,) = saved["tests"]
    names = {"nats", "bits_per_byte", "token_accuracy", "exact_match", "accuracy", "bleu", "chrf"}
    names |= {"length_ratio", "perplexity"}
    assert test["overall"].keys() == names
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == [(1, 4, 6), (5, 9, 7)]
    assert all(b.keys() > names for b in test["buckets"])
    rows = rows_of(path)
    assert len(rows) == 13
    assert metrics.compute_scores_by_bucket(rows, ())[0] == test["overall"]
    # the alignment
    trained = load_model(record.load(path), weights)
    alignment, example = saved["alignment"], toy().alignment_example.example
    assert (alignment is not None) == (name in ATTENDING)
    if alignment:
        assert alignment["src"] == alignment["tgt"] == TOKENIZER.tokens(example.src)
        src, tgt = torch.tensor([example.src]), torch.tensor([[BOS, *example.src]])
        alpha = trained.align(src, src > 0, tgt)[0, :-1].detach()
        np.testing.assert_allclose(alignment["alpha"], alpha, atol=6e-5)
        assert alignment["gold"] == [[0, 0]]
    # the model itself
    scores = loop.validate(trained, toy().valid)
    best = min(point["valid_nats"] for point in saved["curve"])
    assert scores["valid_nats"] == pytest.approx(best, rel=1e-6)


def totals(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, float]]:
    """Return the sums of all weights before and after training, and whether dropout is on."""
    before, after = (sum(p.sum().item() for p in m.parameters()) for m in (untrained, model))
    return [{"before": before, "after": after, "dropout": float(model.training)}]


def test_analyses_measure_before_and_after(tmp_path: Path, undrawn: None, few_draws: None) -> None:
    begun = list[Any]()
    measured = toy(measure={"totals": totals}, begin=lambda _, *about: begun.append(about))
    compare(measured, options(tmp_path, models=["rnn_encdec_start"], seeds=[2]))
    assert begun == [(["rnn_encdec_start", "rnn_encdec"], 2)] * 2
    saved = fields_of(tmp_path / "rnn_encdec_start-seed2.json")
    torch.manual_seed(2)
    start = build("rnn_encdec_start", **saved["model_config"]).state_dict()
    weights = load_file(tmp_path / "rnn_encdec_start-seed2.safetensors")
    before, after = (sum(w.sum().item() for w in own.values()) for own in (start, weights))
    expected = {"before": before, "after": after, "dropout": 0}
    assert saved["analyses"]["totals"] == [pytest.approx(expected)]
    assert abs(before - after) > 0.01


# ------------------------------------------------------------------------------ Rows and operations
TEXTS = [("Äh, ba", "für a"), ("ba", "b"), ("c", "a ä")]  # which the tokens do not give back


def evaluate(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[Any, Any, list[int]]:
    """Score three rows of given losses; return them, the record's entry, and the beams used."""
    examples = [
        Example([4, 5], [4, 5, EOS]), Example([6], [5, 6], frozenset({0})), Example([4], [4, EOS]),
    ]  # fmt: skip
    losses = [(6.0, 3, 2), (1.0, 1, 1), (2.0, 2, 2)]
    rows = [dict(zip(("nats", "n_tokens", "n_correct"), row, strict=True)) for row in losses]
    beams: list[int] = []

    def generate(model: Any, examples: Any, beam: int, *_: Any) -> list[list[int]]:
        beams.append(beam)
        return [[4, 5], [6], [5]]

    monkeypatch.setattr(one_run, "score_teacher_forced", lambda *_, **_given: rows)
    monkeypatch.setattr(one_run, "generate_targets", generate)
    fields = {"examples": examples, "x": [2, 1, 1], "buckets": [(1, 1), (2, 3)]}
    test = replace(toy().tests[0], **fields | changes)
    return *score_test_set(build("gpt", 11, **TINY["gpt"]), toy(beam=2), test), beams


def test_a_row_holds_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"texts": TEXTS, "beam": 3, "groups": [7, 8, 7], "noun": "lines"}
    rows, entry, beams = evaluate(monkeypatch, **about)
    assert (beams, entry["beam"], entry["noun"]) == ([3], 3, "lines")
    assert [(row["x"], row["group"]) for row in rows] == [(2, 7), (1, 8), (1, 7)]
    assert [(row["src"], row["ref"]) for row in rows] == TEXTS
    assert [row["hyp"] for row in rows] == ["a b", "c", "b"]
    assert [row["n_bytes"] for row in rows] == [6 + 1, 1, 4 + 1]  # an end counts as a byte
    assert [row["exact_match"] for row in rows] == [True, False, False]
    assert [(b["low"], b["n"]) for b in entry["buckets"]] == [(1, 2), (2, 1)]
    assert entry["overall"]["nats"]["value"] == pytest.approx(9 / 6)
    assert evaluate(monkeypatch)[2] == [2]


def test_a_row_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"is_generated": False, "primary_metric": "perplexity"}
    rows, entry, beams = evaluate(monkeypatch, **about)
    assert (beams, "beam" in entry) == ([], False)
    assert [row["ref"] for row in rows] == ["a b", "c", "a"]
    assert [row["n_bytes"] for row in rows] == [3 + 1, 1, 1 + 1]
    assert [row["exact_match"] for row in rows] == [False, True, True]
    for part in (entry["overall"], *entry["buckets"]):
        assert part["perplexity"]["value"] == pytest.approx(math.exp(part["nats"]["value"]))


OWN = """
from dataclasses import dataclass
from seqmodels.models import gpt
@dataclass(frozen=True, kw_only=True)
class Config(gpt.Config):
    n_layers: int = 2
    n_heads: int = 2
    window: int = 8
class Own(gpt.GPT):
    config_type = Config
"""


CHANGES = {
    "window: int = 1": "window was 8, is 1",
    "window: int = 8\n    n_layers: int = 1": "n_layers was 2, is 1",
    "window: int = 8  # words": "SHA-256 is no longer|model_sha256 was",
}


def test_a_changed_class_is_refused_by_name(tmp_path: Path) -> None:
    file, out = tmp_path / "own.py", tmp_path / "out"

    def train(text: str) -> None:
        file.write_text(text)
        registry.PAPERS.pop("Own", None)
        for name in registry.SHA256:
            sys.modules.pop(name, None)
        registry.register_file(str(file))
        compare(toy(recipes={"gpt": toy().recipes["gpt"]}), options(out, models=["Own"]))

    with stopped_after(2):
        train(OWN)
    for change, fault in CHANGES.items():
        with pytest.raises(ValueError, match=fault):
            train(OWN.replace("window: int = 8", change))
    train(OWN)
    path = out / "Own-seed1.json"
    saved, weights = record.load(path), path.with_suffix(".safetensors")
    task = toy(recipes={**toy().recipes, "gpt_rotary": toy().recipes["gpt"]._replace(lr=2.0)})
    assert [task.recipe(name).lr for name in ("gpt_rotary", "gpt_alibi")] == [2.0, 0.01]
    assert [event.kind for event in saved.events] == ["recipe", "resumed"]
    assert saved.settings.keys() == {"vocab_size", "d_model"}
    assert saved.defaults.items() >= {"window": 8, "n_layers": 2, "dropout": 0.1}.items()
    assert saved.model_sha256 == hashlib.sha256(OWN.encode()).hexdigest()
    assert getattr(load_model(saved, weights).config, "window", None) == 8
    for change, fault in CHANGES.items():
        with pytest.raises(ValueError, match=fault):
            train(OWN.replace("window: int = 8", change))
        with pytest.raises(ValueError, match=f"own.py has changed: .*({fault})"):
            load_model(saved, weights)
    # a record of an earlier version holds neither
    values = fields_of(path)
    del values["model_defaults"], values["model_sha256"]
    path.write_text(json.dumps(values))
    train(OWN.replace("window: int = 8", "window: int = 1"))
    load_model(record.load(path), weights)
    registry.PAPERS.pop("Own")
