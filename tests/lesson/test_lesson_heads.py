"""Names of heads on the live page, from records of the same weights."""

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
