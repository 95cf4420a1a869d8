"""Numbers of pages: what the committed records say, in the words of a page."""

from typing import Any

import pytest
from fake_records import fake_record, metric

from seqmodels.records.io import build
from tools.numbers import RNN, TRANSFORMER, Results, interval, say, scores_of, span

LOOKUP = Results("lookup", "query", "exact_match")


def test_settings_of_a_page_are_those_of_its_records() -> None:
    settings: dict[str, Any] = {"tokens": 650_000, "parameters": 0.24e6, "seeds": 3}
    LOOKUP.confirm(["gpt"], **settings)
    for other in ({"tokens": 640_000}, {"parameters": 0.3e6}, {"parameters": 0.2e6}, {"seeds": 2}):
        with pytest.raises(ValueError, match="lookup"):
            LOOKUP.confirm(["gpt"], **(settings | other))


def test_scores_are_of_the_named_test_bucket_and_metric() -> None:
    fields = fake_record("gpt", 1)
    parts = [{"low": 1, "high": 9, "n": 4, "bleu": metric(2.0, 0.5), "nats": metric(3.0, 0.5)}]
    parts += [{"low": 10, "high": 10, "n": 4, "bleu": metric(5.0, 0.5), "nats": metric(7.0, 0.5)}]
    length = fields["tests"][0] | {"name": "length", "buckets": parts}
    length["overall"] = {"bleu": metric(11.0, 0.5), "nats": metric(13.0, 0.5)}
    greedy = length | {"name": "greedy", "overall": {"bleu": metric(17.0, 0.5)}}
    record = build(fields | {"tests": [length, greedy]})
    for asked, value in {
        ("1–9", "bleu", "length"): 2.0, ("1–9", "nats", "length"): 3.0,
        ("10", "bleu", "length"): 5.0, ("all", "nats", "length"): 13.0,
        ("all", "bleu", "greedy"): 17.0,
    }.items():  # fmt: skip
        assert scores_of([record], *asked) == [value]
    with pytest.raises(ValueError, match="no bucket '2–9'; there are 1–9, 10, all"):
        scores_of([record], "2–9", "bleu", "length")


def test_a_difference_turned_round_has_the_other_sign() -> None:
    results = Results("translation-grammar")
    there = results.difference(RNN, TRANSFORMER, "31–40")
    back = results.difference(TRANSFORMER, RNN, "31–40")
    assert there.value < there.high < 0
    assert (back.value, back.low, back.high) == (-there.value, -there.high, -there.low)
    assert interval(there).startswith("−")
    with pytest.raises(ValueError, match="not compared"):
        results.difference(RNN, RNN)


def test_a_span_is_one_number_if_both_ends_round_to_it() -> None:
    assert span([0.26, -0.04, 0.14], 1) == "0.0 to 0.3"
    assert span([1.4, 0.6]) == "1"


def test_a_paragraph_keeps_numbers_and_per_cent_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"{'a' * 116}\n 12 % of it")
    assert capsys.readouterr().out == f"{'a' * 116}\n12 % of it\n"
