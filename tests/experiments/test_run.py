"""One run and its record."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ATTENDING, fields_of, rows_of
from safetensors.torch import load_file
from toys import TOKENIZER, options, toy

from seqmodels import MODELS, SequenceModel, build
from seqmodels.evaluation import metrics
from seqmodels.experiments import compare, inference, specs
from seqmodels.records import io as record
from seqmodels.training import loop
from seqmodels.training.config import TrainConfig


def test_a_record_is_complete(name: str, compared: Path, few_draws: None) -> None:
    path = compared / f"{name}-seed1.json"
    saved, weights = fields_of(path), path.with_suffix(".safetensors")
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
    assert saved["speed"]["evaluate_sentences_per_s"] == pytest.approx(13 / saved["evaluate_s"])
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
    assert [(b["low"], b["high"], b["n"]) for b in test["buckets"]] == [(1, 4, 6), (5, 9, 7)]
    assert all(b.keys() > names for b in test["buckets"])
    rows = rows_of(path)
    assert len(rows) == 13
    assert metrics.compute_scores_by_bucket(rows, ())[0] == test["overall"]
    # the alignment
    alignment, example = saved["alignment"], toy().alignment_example.example
    assert (alignment is not None) == (name in ATTENDING)
    if alignment:
        assert alignment["src"] == alignment["tgt"] == TOKENIZER.tokens(example.src)
        assert np.shape(alignment["alpha"]) == (len(alignment["tgt"]), len(alignment["src"]))
        assert alignment["gold"] == [[0, 0]]
    # the model itself
    scores = loop.validate(inference.load_model(record.load(path), weights), toy().valid)
    best = min(point["valid_nats"] for point in saved["curve"])
    assert scores["valid_nats"] == pytest.approx(best, rel=1e-6)


def totals(model: SequenceModel, untrained: SequenceModel) -> list[dict[str, float]]:
    """Return the sums of all weights before and after training, and whether dropout is on."""
    before, after = (sum(p.sum().item() for p in m.parameters()) for m in (untrained, model))
    return [{"before": before, "after": after, "dropout": float(model.training)}]


def test_analyses_measure_before_and_after(tmp_path: Path, undrawn: None, few_draws: None) -> None:
    measured = toy(measure={"totals": totals})
    compare.compare(measured, options(tmp_path, models=["rnn_encdec"], seeds=[2]))
    saved = fields_of(tmp_path / "rnn_encdec-seed2.json")
    torch.manual_seed(2)
    start = build("rnn_encdec", **saved["model_config"]).state_dict()
    weights = load_file(tmp_path / "rnn_encdec-seed2.safetensors")
    before, after = (sum(w.sum().item() for w in own.values()) for own in (start, weights))
    expected = {"before": before, "after": after, "dropout": 0}
    assert saved["analyses"]["totals"] == [pytest.approx(expected)]
    assert abs(before - after) > 0.01
