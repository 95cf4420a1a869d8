"""The check of the pages' numbers: it finds a number, a table and a page that are wrong."""

from pathlib import Path

import pytest

from tools import check_numbers

TABLES = (
    "### scores\n\n| model | 1–2 | 3† |\n| --- | --: | --: |\n| A | 5.1 | 7.2 |\n| B | 6 | 8 |\n"
)
PAGE = """# Page

A scores −3.4 to
12 BLEU.

<!-- table: t/tables.md; scores; 3† = 3 -->
<!-- end -->
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "tables.md").write_text(TABLES, encoding="utf-8")
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    write_numbers(tmp_path, '"A scores {:.1f} to {:.0f} BLEU"', "span([12.2, -3.41, 5])")
    monkeypatch.setattr(check_numbers, "ROOT", tmp_path)
    monkeypatch.setattr(check_numbers, "PAGES", [tmp_path / "page.md"])
    monkeypatch.setattr(check_numbers, "NUMBERS", tmp_path / "numbers.toml")
    return tmp_path


def write_numbers(root: Path, words: str, expression: str) -> None:
    text = f'numbers = [["page.md", {words}, "{expression}"]]\n'
    (root / "numbers.toml").write_text(text, encoding="utf-8")


def test_a_table_is_copied_with_its_columns_and_then_holds(root: Path) -> None:
    assert check_numbers.main([]) == 1
    check_numbers.main(["--write"])
    assert "| model | 3 |\n| --- | --: |\n| A | 7.2 |\n| B | 8 |" in (root / "page.md").read_text()
    assert check_numbers.main([]) == 0
    (root / "t" / "tables.md").write_text(TABLES.replace("7.2", "7.3"), encoding="utf-8")
    assert check_numbers.main([]) == 1


@pytest.mark.parametrize("expression", [
    "span([12.2, -3.46, 5])", "span([12.6, -3.41])", "span([])", "scores('nowhere', 'gpt')",
])  # fmt: skip
def test_another_number_is_found(root: Path, expression: str) -> None:
    check_numbers.main(["--write"])
    write_numbers(root, '"A scores {:.1f} to {:.0f} BLEU"', expression)
    assert check_numbers.main([]) == 1


def test_differences_turn_round_and_buckets_are_named() -> None:
    row, column = "lstm_seq2seq_additive", "lstm_seq2seq_last"
    there = check_numbers.difference("ladder", row, column, "16–20")
    back = check_numbers.difference("ladder", column, row, "16–20")
    assert there[1] < there[0] < there[2]
    assert back == (-there[0], -there[2], -there[1])
    assert check_numbers.name_bucket({"low": 8, "high": 8}) == "8"


def test_pages_are_those_of_the_records() -> None:
    assert check_numbers.main([]) == 0
