"""The values that a field or an argument can have, by its declared type: for flags and Python."""

from __future__ import annotations

import inspect
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Lt

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

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
def adapter(hint: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type; any value is right for a type that is not known here."""
    from pydantic import PydanticSchemaGenerationError, TypeAdapter  # slow to import

    try:
        return TypeAdapter(hint)
    except PydanticSchemaGenerationError:
        return TypeAdapter(Any)


def parse_field(name: str, hint: object, value: object, is_strict: bool = False) -> Any:
    """Return a value, or a text for it, as a field's type; raise ValueError that names the field.

    If it is strict, a text is a wrong value of a number.
    """
    from pydantic import ValidationError

    try:
        return adapter(hint).validate_python(value, strict=is_strict)
    except ValidationError as error:
        raise explain(name, error, str) from None


def explain(name: str, error: ValidationError, show: Callable[[Any], str]) -> ValueError:
    """Return an error with the first problem of a value, which is named with its place in it."""
    problems = error.errors(include_url=False)
    value = problems[0]["input"]
    shown = show(value) if isinstance(value, str) else reprlib.repr(value)
    place = "".join(f"[{part}]" for part in problems[0]["loc"] if isinstance(part, int))
    of_union = dict.fromkeys(problem["msg"] for problem in problems if problem["input"] is value)
    message = " or ".join(of_union).replace(" or Input should be", " or").replace(*SINGLE_TEXT)
    message = re.sub(r"(less|greater) than -?inf", "a finite number", message)
    return ValueError(f"{name}{place}={' '.join(shown.split())[:MAX_SHOWN]}: {message}")


def check_fields(values: object) -> None:
    """Raise ValueError for a field of a dataclass whose value its type does not admit."""
    owner: type = type(values)
    for name, hint in field_types(owner).items():
        parse_field(name, hint, getattr(values, name), is_strict=True)


# -------------------------------------------------------------------------------------- Arguments


def check_arguments(target: Target) -> Target:
    """Check the arguments of a function, or those of a class's public methods, when it is called.

    A call with a wrong argument raises ValueError, or TypeError where it does not fit the
    signature, and names it. NumPy's numbers and arrays are passed on as Python's, iterators as
    lists, and a text as a path where a path is expected.
    """
    if isinstance(target, type):
        for name, member in [*vars(target).items()]:
            if isinstance(member, FunctionType) and (name == "__init__" or name[0] != "_"):
                setattr(target, name, check_arguments(member))
        return target
    signature = inspect.signature(target)

    @wraps(target)
    def call(*args: object, **kwargs: object) -> object:
        given = signature.bind(*args, **kwargs)
        given.arguments.update(check_call(target, given.arguments))
        return target(*given.args, **given.kwargs)

    return call  # type: ignore[return-value]


def check_call(function: Callable[..., object], given: Mapping[str, object]) -> dict[str, object]:
    """Return a function's arguments, checked: for one that can do without another frame."""
    hints = argument_types(function)
    return {name: check_argument(name, hints[name], given[name]) for name in hints if name in given}


@cache
def argument_types(function: Callable[..., object]) -> dict[str, Any]:
    """Return the types of a function's parameters by name, except that of `**` and the result's."""
    kinds = inspect.signature(function).parameters
    named = {
        name: hint
        for name, hint in function.__annotations__.items()
        if name in kinds and kinds[name].kind is not inspect.Parameter.VAR_KEYWORD
    }
    scope = inspect.unwrap(function).__globals__
    return get_type_hints(SimpleNamespace(__annotations__=named), scope, include_extras=True)


@cache
def argument_adapter(hint: Any) -> TypeAdapter[Any]:
    """Return what checks values of a type, which can be any class."""
    from pydantic import ConfigDict, InstanceOf, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a dataclass or a model of pydantic: it has a config of its own
        return TypeAdapter(InstanceOf[hint])


def check_argument(name: str, hint: object, value: object) -> Any:
    """Return an argument, or the plain value that it stands for; raise ValueError that names it."""
    from pydantic import ValidationError

    try:
        read = argument_adapter(hint).validate_python(value, strict=True)
        return read if isinstance(read, int | float | str) else value  # NumPy's can be read
    except ValidationError as error:
        if (plain := to_plain(hint, value)) is value:
            raise explain(name, error, repr) from None
    return check_argument(name, hint, plain)


def to_plain(hint: object, value: Any) -> Any:
    """Return the Python value that another one stands for, or the same one."""
    if hasattr(type(value), "tolist"):  # a number or an array of NumPy, a column of pandas
        return value.tolist()
    if get_origin(hint) is Sequence and isinstance(value, Iterator | ValuesView):
        return [*value]
    return Path(value) if isinstance(value, str) and Path in (hint, *get_args(hint)) else value


# ------------------------------------------------------------------------------------ Environment


def read_environment(name: str, default: int) -> int:
    """Return a whole number above zero from the environment; raise ValueError for another value."""
    value = os.environ.get(name, str(default))
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", value):
        raise ValueError(f"{name}={value}: give a whole number from 1, or unset it")
    return int(value)
