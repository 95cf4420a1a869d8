"""The values that a field or an argument can have, by its declared type: for flags and Python."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable
from dataclasses import fields
from functools import cache, wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Lt

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

P = ParamSpec("P")
T = TypeVar("T")
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
        raise ValueError(explain_value(name, error)) from None


def check_fields(values: Any) -> None:
    """Raise ValueError for a field of a dataclass whose value its type does not admit."""
    owner: type = type(values)
    for name, hint in field_types(owner).items():
        parse_field(name, hint, getattr(values, name), is_strict=True)


@cache
def validated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as `pydantic.validate_call` wraps it."""
    from pydantic import ConfigDict, validate_call  # slow to import

    return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)


def check_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with arguments checked by `pydantic.validate_call`.

    A wrong argument raises ValueError, in one sentence that names it.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        from pydantic import ValidationError

        try:
            return validated(function)(*args, **kwargs)
        except ValidationError as error:
            place = error.errors()[0]["loc"][0]
            names = [*inspect.signature(function).parameters]
            name = names[place] if isinstance(place, int) else place
            raise ValueError(explain_value(name, error)) from None

    return call


def explain_value(name: str, error: ValidationError) -> str:
    """Return the first problem of a value as a sentence."""
    problem = error.errors(include_url=False)[0]
    return f"{name}={reprlib.repr(problem['input'])}: {problem['msg']}"
