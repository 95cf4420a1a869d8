"""Names of heads on the live page, from records of the same weights; a muted one, by torch."""

from typing import Any

import pytest
import torch
from conftest import RESULTS
from fake_records import as_records, fake_record

from lesson import live
from seqmodels import inference
from seqmodels.interface import SequenceModel
from seqmodels.report.load import load_folder

PATHS = [f"{side}.{i}.self_attention" for side in ("encoder", "decoder") for i in (0, 1)]
PATHS = sorted([*PATHS, "decoder.0.src_attention", "decoder.1.src_attention"])


def test_heads_are_named_by_most_of_their_weight_beyond_chance() -> None:
    (record,) = as_records([fake_record("transformer", 1)])
    shares = {
        "a": (("encoder", 1, 1), 60, 31, 2),  # not twice what the offset gives
        "b": (("encoder", 1, 2), 49, 1, 2),
        "c": (("source", 2, 1), 51, 4, 25),
        "d": (("source", 2, 1), 97, 3, 48),
    }
    record.analyses["heads"] = [
        {"attention": a, "layer": n, "head": h, "pair": pair, "n": 9, "share": share,
         "by_offset": offset, "by_part_of_speech": part}
        for pair, ((a, n, h), share, offset, part) in shares.items()
    ]  # fmt: skip
    paths = ["encoder.0.self_attention", "decoder.1.self_attention", "decoder.1.src_attention"]
    assert live.name_heads(record, paths, 2) == [["", ""], ["", ""], ["d, 97 %", ""]]


def test_only_records_of_the_same_weights_count() -> None:
    shipped = load_folder(RESULTS / "translation-live").records
    measured = live.find_measured(shipped["transformer-seed1.json"])
    assert measured == load_folder(live.MEASURED).records["transformer-seed1.json"]
    assert live.find_measured(shipped["gpt-seed1.json"]) is None


def mute_in_weights(model: SequenceModel, path: str, head: int, n_heads: int) -> None:
    """Set the columns of W_o that a head goes through to zero."""
    attention: Any = model.get_submodule(path)
    W_o = attention.W_o.weight
    width = W_o.shape[1] // n_heads
    with torch.no_grad():
        W_o[:, head * width : (head + 1) * width] = 0


@pytest.mark.slow
def test_the_muted_sentence_breaks_without_the_articles_head() -> None:
    paths = [RESULTS / "translation-live" / f"{name}-seed1.json" for name in ("gpt", "transformer")]
    manifest = {
        "heads": {"attentions": PATHS, "n": 4},
        "attention": {"mask_rows": [PATHS.index(p) for p in PATHS if "src" in p]},
    }
    runs = [{"manifest": manifest, "label": label} for label in ("GPT", "Transformer")]
    shipped = load_folder(RESULTS / "translation-live").records
    chosen = {path: shipped[path.name] for path in paths}
    examples = [(5, "No words.", "?"), (3, "A duck hears Anna.", "Eine Ente hört Anna.")]
    muted = live.describe_heads(runs, chosen, examples)
    attention = PATHS.index("decoder.1.src_attention")
    address = f"#text=A%20duck%20hears%20Anna.&m=1&l=1&h=3&mute=1-{attention}-3"
    assert muted == {"address": address, "label": "Transformer", "src": "A duck hears Anna."}
    assert [*map(len, (run.get("head_names", []) for run in runs))] == [0, len(PATHS)]
    run = inference.load(paths[1])
    mute_in_weights(run.model, "decoder.1.src_attention", 3, 4)
    assert run.translate(["A duck hears Anna."]) == ["Ein Ente hört Anna."]
