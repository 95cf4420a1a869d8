"""Small sizes for any model: tests and tools build each model without naming it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from seqmodels import MODELS


def sizes_of(name: str, **sizes: Any) -> dict[str, Any]:
    """Return those of these sizes that the model's Config has."""
    has = {field.name for field in fields(MODELS[name].config_type)}
    return {size: value for size, value in sizes.items() if size in has}
