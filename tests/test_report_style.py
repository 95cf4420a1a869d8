"""The style of figures: it does not leak, and text in every script is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqmodels.models import PAPERS
from seqmodels.report import alignment, style


def test_drawing_leaves_the_callers_settings_alone(tmp_path: Path) -> None:
    """A style that leaks into other figures of the same program."""
    import matplotlib

    before = dict(matplotlib.rcParams)
    alignment.draw_alignment(
        {"gpt": {"src": ["a"], "tgt": ["b"], "alpha": [[1.0]]}}, tmp_path / "a.svg"
    )
    assert dict(matplotlib.rcParams) == before


def test_a_line_is_dashed_where_the_source_is_in_one_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Keeps out dashes turned round, though captions name them, and two models with one look."""
    monkeypatch.setitem(PAPERS, "another", replace(PAPERS["lstm_seq2seq"], label="Another"))
    found = style.looks([*PAPERS])
    assert list(found) == list(PAPERS)
    for name, entry in PAPERS.items():
        assert (found[name].dashes == "-") is (entry.memory == "grows")
        assert found[name].label == entry.label
    dashed = [str(look.dashes) for look in found.values() if look.dashes != "-"]
    assert len(set(dashed)) == len(dashed) == 4
    later = [name for name, look in found.items() if look.dashes == style.LATER]
    assert later == [name for name, paper in PAPERS.items() if paper.memory == "fixed"]


STRANGE = ["你好", "नमस्ते", "שלום", "مرحبا", "e\N{COMBINING ACUTE ACCENT}", "\u202eabc", "ไทย", "🙂"]


@pytest.mark.parametrize("installed", [[], None])
def test_any_script_is_drawn_and_what_lacks_a_font_is_named_once(
    installed: list[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Keeps out dozens of warnings about glyphs, and boxes that nobody explains."""
    if installed is not None:
        monkeypatch.setattr(style.font_manager, "get_font_names", lambda: installed)
    style.note_missing_glyphs.cache_clear()
    a = {"src": STRANGE, "tgt": STRANGE, "alpha": np.eye(len(STRANGE)).tolist()}
    for kind in ("png", "svg"):
        alignment.draw_alignment({"bahdanau": a, "gpt": a}, tmp_path / f"a.{kind}")
    assert "你好" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") <= 1
    if installed is not None:
        assert err.startswith("note: no font here has ")
