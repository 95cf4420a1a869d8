"""Numbers in pages: which ones are filled in from records, and which are typed by hand."""

from pathlib import Path

import pytest

from tools import unfilled

PAGE = """# A page of 7 minutes
It takes 24 BLEU and 3 % of 10 to 12 minutes.
`--top 5 %` and [a link](a-6 %) and 8 models are not measured.
```sh
run  # 9 minutes
```
<!-- [[[cog
say(f"{30} BLEU")
]]] -->
30 BLEU, 1.5 M tokens/s
2 × and 4 times
<!-- [[[end]]] -->
<!-- [[[cog print(table()) ]]] -->
| 41 % | 42 nats |
<!-- [[[end]]] -->
After it, 1,000 MB.
"""


def test_numbers_are_filled_in_between_a_block_and_its_end() -> None:
    found = [*unfilled.find_numbers(PAGE)]
    by_hand = [(n.line, n.text) for n in found if not n.is_filled]
    assert by_hand == [
        (1, "7 minutes"), (2, "24 BLEU"), (2, "3 %"), (2, "10 to 12 minutes"), (16, "1,000 MB"),
    ]  # fmt: skip
    assert [(n.line, n.text) for n in found if n.is_filled] == [
        (10, "30 BLEU"), (10, "1.5 M tokens/s"), (11, "2 ×"), (11, "4 times"),
        (14, "41 %"), (14, "42 nats"),
    ]  # fmt: skip


def test_a_number_without_a_unit_or_within_a_word_is_not_measured() -> None:
    text = "v1.5 MB x3 % 6 percent 7 msgs 8\u00a0% 9 %"
    assert [n.text for n in unfilled.find_numbers(text)] == ["8\u00a0%", "9 %"]


def test_the_list_names_page_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["unfilled", str(path)])
    unfilled.main()
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"{path}: 6 filled in, 5 by hand"
    assert rest[-1] == f"  {path}:16: 1,000 MB"
    assert len(rest) == 5
