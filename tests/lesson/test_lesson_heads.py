"""Names of heads on the live page, from records of the same weights."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import RESULTS
from fake_records import as_records, fake_record

from lesson import live
from seqmodels.report.load import load_folder


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


def test_the_sentence_without_a_head_is_exact_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (record,) = as_records([fake_record("transformer", 1)])
    heads = ((1, 1, 55.0), (2, 2, 60.0))
    record.analyses["article"] = [
        {"attention": "encoder", "layer": layer, "head": head, "share": share}
        for layer, head, share in heads
    ]
    run = Mock(**{"translate.side_effect": [["x", "b", "c"], ["y", "b", "z"]]})
    monkeypatch.setattr(live.inference, "load", lambda _: run)
    monkeypatch.setattr(live, "mute_heads", lambda *_: nullcontext())
    paths = {"attentions": ["encoder.0.self_attention", "encoder.1.self_attention"], "n": 2}
    examples = [(3, "1", "a"), (3, "2", "b"), (3, "3", "c")]  # wrong, unchanged, and as wanted
    found = live.mute_article_head(record, Path("a"), {"heads": paths}, examples)
    assert found == ("3", 1, 1)
