"""Draw the mistakes from records."""

from typing import Any

FIGURES: list[Any] = []
