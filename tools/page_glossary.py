"""The table of docs/glossary.md."""

from __future__ import annotations

from lesson.glossary import GLOSSARY


def glossary_table(name: str) -> str:
    """Return the words of a part of the glossary, and their meanings."""
    rows = [f"| **{word}** | {text} |" for word, text in GLOSSARY[name].items()]
    return "\n".join(["| word | meaning |", "| --- | --- |", *rows])
