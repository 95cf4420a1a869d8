"""Titles: what a figure's scores show, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from fake_records import drawn_scores, scored

from seqmodels.report import style

FALLING = {
    "rnn_encdec": (80, 40, 10), "lstm_seq2seq": (50, 30, 10),
    "bahdanau": (100, 98, 50), "gpt": (50, 48, 20),
}  # fmt: skip


def title_of(records: list[dict[str, Any]]) -> str:
    """Return the title of the first test set's figure, on one line."""
    return " ".join(drawn_scores(records).texts[0].get_text().split())


@pytest.mark.parametrize(
    ("trained", "counts", "words"),
    [
        (20, (100, 100, 100), "45 % of its BLEU between 1–10 and 11–20 words; attention loses 3 %"),
        (None, (100, 100, 29), "45 % of its BLEU between 1–10 and 11–20 words; attention loses 3 "),
        (None, (100, 100, 30), "84 % of its BLEU between 1–10 and 21–30 words; attention loses 55"),
        (29, (100, 100, 100), "45 % of its BLEU between 1–10 and 11–20 words"),
    ],
)
def test_a_title_says_what_is_lost(
    trained: int | None, counts: tuple[int, ...], words: str
) -> None:
    """Keeps out a loss from another bin than the longest trained, or one of two sentences."""
    records = scored(FALLING, counts, trained=trained)
    assert title_of(records).startswith(f"One vector loses {words}")
    numbers = " ".join(drawn_scores(records).texts[1].get_text().split())
    change = -50 if counts[2] < 30 or trained else -88
    assert f"RNN encoder–decoder −{-change} %" in numbers


def test_a_title_says_that_a_score_rises() -> None:
    """Keeps out a gain that is sold as a loss."""
    rising = FALLING | {"bahdanau": (50, 60, 70), "gpt": (40, 48, 56)}
    assert title_of(scored(rising, trained=20)).endswith("; attention gains 20 %")


ONE_GROUP = {m: FALLING[m] for m in ("bahdanau", "gpt")}


@pytest.mark.parametrize(
    ("values", "half"),
    [
        (ONE_GROUP, 25.0),  # one group, in which the losses are not clear
        ({"gpt": (50, 48, 20)}, 1.0),  # one model
        (ONE_GROUP | {"gpt": (50, 4, 0)}, 1.0),  # not learned where training ends
        (FALLING, 30.0),  # intervals that meet
        ({m: tuple(v / 50 for v in x) for m, x in FALLING.items()}, 0.01),  # nothing learned
        (FALLING | {"a_sixth": (9, 9, 9)}, float("nan")),  # intervals not recorded
    ],
)
def test_a_title_says_no_more_than_is_known(values: Any, half: float) -> None:
    """Keeps out a finding where there is but one group, where intervals meet, or below BLEU 2."""
    assert title_of(scored(values, half=half, trained=20)) == "BLEU against source length"


def test_one_group_falls_beyond_training() -> None:
    """Keeps out a figure of variants without a finding, and a loss counted from the first bin."""
    records = scored(ONE_GROUP, trained=20)
    title = "All lose 49–58 % of their BLEU between 11–20 and 21–30 words, longer than trained"
    assert title_of(records) == title
    numbers = " ".join(drawn_scores(records).texts[1].get_text().split())
    assert "Change: Bahdanau −49 %, GPT −58 %." in numbers
    for trained, n in ((20, 29), (29, 100), (30, 100)):  # few sentences, half beyond, not beyond
        records = scored(ONE_GROUP, (100, 100, n), trained=trained)
        assert title_of(records) == "BLEU against source length"


def test_groups_that_overlap_give_way_to_two_models() -> None:
    """Keeps out a mean of attention in which one model hides that is worse than one vector."""
    values = FALLING | {"gpt": (50, 10, 5)}
    assert title_of(scored(values, trained=20)).startswith(
        "GPT loses 80 % of its BLEU between 1–10 and 11–20 words; Bahdanau loses 2 %"
    )


def test_percentages_are_titled_from_first_to_last() -> None:
    """Keeps out a share of a percentage: from 2 to 4 % right would be a gain of 100 %."""
    records = scored(FALLING, primary_metric="accuracy", trained=20)
    title = "Symbol accuracy from 1–10 to 11–20 words: attention 75 → 73 %, one vector 65 → 35 %"
    assert title_of(records) == title


LATER = "linear_attention"


@pytest.mark.parametrize("scores", [(100, 20, 1), (100, 100, 99)])
def test_no_title_speaks_of_what_came_after(scores: tuple[int, ...]) -> None:
    """Keeps out a model of another kind in either group, or as the best or worst of the five."""
    for values in (FALLING, FALLING | {"gpt": (50, 10, 5)}):
        five, six = (scored(v, trained=20) for v in (values, values | {LATER: scores}))
        assert title_of(six) == title_of(five) != "BLEU against source length"
    place = {"kind": "place", "unit": "tenths", "primary_metric": "nats"}
    five, six = (scored(v, **place) for v in (FALLING, FALLING | {LATER: scores}))
    assert title_of(six) == title_of(five)
    assert "has the lowest" in title_of(five)


def test_what_came_after_is_drawn_and_explained() -> None:
    """Keeps out a sixth line that is missing, or whose dashes no caption explains."""
    figure = drawn_scores(scored(FALLING | {LATER: (100, 50, 20)}, trained=20))
    numbers, caption = (" ".join(text.get_text().split()) for text in figure.texts[1:3])
    assert "Linear attention −50 %" in numbers
    assert caption.endswith(
        "Dashed: source in one vector; solid: attends to every word. Dash-dotted: attends to every "
        "word through a memory of fixed size."
    )
    colours = {line.get_color() for line in figure.axes[0].lines}
    assert style.LOOKS[LATER][0] in colours
    assert "Dash-dotted" not in drawn_scores(scored(FALLING)).texts[2].get_text()
