"""Running a task by its name: what is printed of the records so far."""

from pathlib import Path

from fake_records import fake_record, metric, write
from toys import toy

from seqmodels.comparison import summarize


def test_a_summary_has_the_scores_of_the_first_test_so_far(tmp_path: Path) -> None:
    records = [fake_record(model, 1) for model in ("rnn_encdec", "bahdanau")]
    for record, score in zip(records, (12.25, 87.5), strict=True):
        (length, *_) = record["tests"]
        length["overall"]["bleu"] = metric(score, 1.0)
        again = length | {"name": "again", "overall": length["overall"] | {"bleu": metric(3.25, 1)}}
        record["tests"] = [length, again]
    text = summarize(write(tmp_path, records), toy())
    rows = [line.split() for line in text.splitlines()]
    (rnn,) = [row for row in rows if row[:2] == ["RNN", "encoder–decoder"]]
    (bahdanau,) = [row for row in rows if row[:1] == ["Bahdanau"] and len(row) > 4]
    assert (rnn[2], bahdanau[1]) == ("12.2", "87.5")
    assert "3.2" not in [*rnn, *bahdanau]
    assert f"Figures and tables so far are in {tmp_path}." in text
    assert (tmp_path / "score-length.svg").exists()
    assert "| 87.5 [" in (tmp_path / "tables.md").read_text(encoding="utf-8")
