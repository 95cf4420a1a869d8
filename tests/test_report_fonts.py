"""Fonts for scripts that the default one lacks."""

from __future__ import annotations

import dataclasses

import pytest

from seqmodels.report import fonts


def test_a_font_that_has_the_script_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps out boxes on a machine that has a font for them, even one installed a minute ago."""
    manager = fonts.font_manager
    regular = ("DejaVu Sans", "normal")
    entry = next(f for f in manager.fontManager.ttflist if (f.name, f.style) == regular)
    noto = dataclasses.replace(entry, name="Noto Sans Tested", fname="/tested.ttf")
    monkeypatch.setattr(manager.fontManager, "ttflist", [entry])
    monkeypatch.setattr(manager, "findSystemFonts", lambda: ["/tested.ttf"])
    monkeypatch.setattr(
        manager.fontManager, "addfont", lambda path: manager.fontManager.ttflist.append(noto)
    )
    has = fonts._characters
    monkeypatch.setattr(
        fonts, "_characters", lambda path: {ord("你")} if path == "/tested.ttf" else has(path)
    )
    fonts.families.cache_clear()
    assert fonts.families(frozenset("你好")) == (("Noto Sans Tested",), frozenset("好"))
    fonts.families.cache_clear()
    assert fonts.lacking("abc ä → − \n") == set()
