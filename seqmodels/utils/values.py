"""The values that a field can have, by its declared type: for flags and Python."""

from __future__ import annotations

import math
import reprlib
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from annotated_types import Ge, Gt, Lt

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Size = Annotated[int, Ge(1)]
"""A number of things, of which there is one at least."""
Share = Annotated[float, Ge(0), Lt(1)]
"""A probability or another part of a whole that is not all of it."""
Positive = Annotated[float, Gt(0), Lt(math.inf)]
"""A rate or a norm."""
NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
"""A weight or a standard deviation, which may be zero."""
Seed = Annotated[int, Ge(0), Lt(2**63)]
"""A seed of random generators."""
Number = Annotated[float, Gt(-math.inf), Lt(math.inf)]
"""Any number but infinity and nan."""
PLAIN = {int: Size, int | None: Size | None, float: Number, float | None: Number | None}
"""What the types of fields without bounds stand for."""


@cache
def field_types(owner: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name, with their bounds.

    There are none for another class, or one that names types which its module does not have.
    """
    try:
        hints = get_type_hints(owner, include_extras=True)
        return {f.name: PLAIN.get(hints[f.name], hints[f.name]) for f in fields(owner)}
    except (NameError, TypeError):
        return {}


@cache
def adapter(hint: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type; any value is right for a type that is not known here."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter  # slow to import

    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)


def parse_field(name: str, hint: Any, value: object, is_strict: bool = False) -> Any:
    """Return a value, or a text for it, as a field's type; raise ValueError that names the field.

    If it is strict, a text is a wrong value of a number.
    """
    from pydantic import ValidationError

    try:
        return adapter(hint).validate_python(value, strict=is_strict)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        text = f"{name}={reprlib.repr(problem['input'])}: {problem['msg']}"
        raise ValueError(text) from None


def check_fields(values: Any) -> None:
    """Raise ValueError for a field of a dataclass whose value its type does not admit."""
    owner: type = type(values)
    for name, hint in field_types(owner).items():
        parse_field(name, hint, getattr(values, name), is_strict=True)
