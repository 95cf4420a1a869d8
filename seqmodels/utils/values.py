"""The values that a field can have, by its declared type: for flags and from Python."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Iterator, ValuesView
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Lt

if TYPE_CHECKING:
    pass

Target = TypeVar("Target", bound=Any)
Size = Annotated[int, Ge(1)]
"""A number of things, of which there is one at least."""
Share = Annotated[float, Ge(0), Lt(1)]
"""A probability or another part of a whole that is not all of it."""
Positive = Annotated[float, Gt(0), Lt(math.inf)]
"""A rate or a norm."""
NonNegative = Annotated[float, Ge(0), Lt(math.inf)]
"""A weight or a standard deviation, which may be zero."""
Count = Annotated[int, Ge(0)]
"""A number of things, of which there may be none."""
Seed = Annotated[int, Ge(0), Lt(2**63)]
"""A seed of random generators."""
Number = Annotated[float, Gt(-math.inf), Lt(math.inf)]
"""Any number but infinity and nan."""
PLAIN = {int: Size, int | None: Size | None, float: Number, float | None: Number | None}
"""What the types of fields without bounds stand for."""
MAX_SHOWN = 60
"""Characters of a wrong value that its error shows."""
SINGLE_TEXT = (
    "'str' instances are not allowed as a Sequence value",
    "a single text; give a list of texts, such as [text]",
)
"""What pydantic says of a text in place of a list, and what we say."""


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
def adapter(hint: Any) -> Any:
    """Return what checks values of a type; any value is right for a type that is not known here."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter  # slow to import

    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)


def parse_field(name: str, hint: Any, value: Any, is_strict: bool = False) -> Any:
    """Return a value, or a text for it, as a field's type; raise ValueError that names the field.

    If it is strict, a text is a wrong value of a number.
    """
    from pydantic import ValidationError

    try:
        return adapter(hint).validate_python(value, strict=is_strict)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    wrong = problems[0]["input"]
    shown = wrong if isinstance(wrong, str) else reprlib.repr(wrong)
    place = "".join(f"[{part}]" for part in problems[0]["loc"] if isinstance(part, int))
    of_union = dict.fromkeys(problem["msg"] for problem in problems if problem["input"] is wrong)
    message = " or ".join(of_union).replace(" or Input should be", " or").replace(*SINGLE_TEXT)
    message = re.sub(r"(less|greater) than -?inf", "a finite number", message)
    raise ValueError(f"{name}{place}={' '.join(shown.split())[:MAX_SHOWN]}: {message}")


def check_fields(values: Any) -> None:
    """Raise ValueError for a field of a dataclass whose value its type does not admit."""
    owner: Any = type(values)
    for name, hint in field_types(owner).items():
        parse_field(name, hint, getattr(values, name), is_strict=True)


def to_plain(value: Any) -> Any:
    """Return NumPy's numbers, arrays and columns of pandas as Python's, and iterators as lists."""
    if hasattr(type(value), "tolist"):
        return value.tolist()
    return [*map(to_plain, value)] if isinstance(value, Iterator | ValuesView) else value


# ------------------------------------------------------------------------------------ Environment


def read_environment(name: str, default: int) -> int:
    """Return a whole number above zero from the environment; raise ValueError for another value."""
    value = os.environ.get(name, str(default))
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", value):
        raise ValueError(f"{name}={value}: give a whole number from 1, or unset it")
    return int(value)
