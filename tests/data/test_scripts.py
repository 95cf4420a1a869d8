"""Words of scripts without spaces."""

from seqmodels.data import scripts


def test_letters_count_as_words_where_there_are_no_spaces() -> None:
    counts = {"Hi there .": 3, "嗨。": 1, "你敢！ OK": 3, "私は学生。": 4, "ทำดี": 3, "": 0}
    assert {text: scripts.count_words(text) for text in counts} == counts
    assert [scripts.unit_of([text]) for text in ("你敢 OK", "你 OK", "ทำดี")] == [
        "characters", "words", "characters"
    ]  # fmt: skip
    assert scripts.unit_of(["OK"] * scripts.N_SAMPLED + ["你敢" * 9_999]) == "words"  # not all
