"""Values in, JSON text out, and back: pypaimon's `JSON`, for every value with `to_dict` and `from_dict`."""

from __future__ import annotations

import json
from typing import Any, Protocol, Self, TypeVar

T = TypeVar("T", bound="Readable")


class Readable(Protocol):
    """A class whose values are read from the members of a JSON object."""

    @classmethod
    def from_dict(cls, data: Any, /) -> Self:  # noqa: ANN401 - any JSON
        """Return the value that the members describe."""


class JSON:
    """Turns values into JSON text and back."""

    @staticmethod
    def to_json(obj: object, **kwargs: Any) -> str:  # noqa: ANN401 - the arguments of json.dumps
        """Return a value, or a list of values, as JSON text; more arguments are those of `json.dumps`."""
        return json.dumps(obj, default=lambda value: value.to_dict(), ensure_ascii=False, **kwargs)

    @staticmethod
    def from_json(json_str: str, target_class: type[T]) -> T:
        """Read a value of a class from JSON text."""
        return target_class.from_dict(json.loads(json_str))
