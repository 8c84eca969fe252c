"""Dataclasses in, JSON out, and back, under the names that `json_field` gives; pypaimon's `common.json_util`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def json_field(json_name: str, **kwargs: Any) -> Any:  # noqa: ANN401 - the arguments and result of dataclasses.field
    """Make a field of a dataclass with another name in JSON."""
    return field(metadata={"json_name": json_name, **kwargs.pop("metadata", {})}, **kwargs)


def json_ignore_field(**kwargs: Any) -> Any:  # noqa: ANN401 - as json_field
    """Make a field of a dataclass that JSON leaves out."""
    return field(metadata={"json_ignore": True, **kwargs.pop("metadata", {})}, **kwargs)


def optional_json_field(json_name: str, json_include: str) -> Any:  # noqa: ANN401 - as json_field
    """Make a field that is None by default; with `non_null` JSON leaves it out then."""
    return field(metadata={"json_name": json_name, "json_include": json_include}, default=None)


def json_field_with_codec(
    json_name: str,
    encoder: Callable[[Any], Any],
    decoder: Callable[[Any], Any],
    json_include: str = "non_null",
) -> Any:  # noqa: ANN401 - as json_field
    """Make a field whose values become JSON, and are read from it, by functions."""
    codec = {"json_name": json_name, "json_include": json_include, "encoder": encoder, "decoder": decoder}
    return field(metadata=codec, default=None)


class JSON:
    """Turns dataclasses, and values with `to_dict` and `from_dict`, into JSON and back."""

    @staticmethod
    def to_json(obj: object, **kwargs: Any) -> str:  # noqa: ANN401 - the arguments of json.dumps
        """Return a value as JSON text; more arguments are those of `json.dumps`."""
        return json.dumps(_plain(obj), ensure_ascii=False, **kwargs)

    @staticmethod
    def from_json(json_str: str, target_class: type[T]) -> T:
        """Read a value of a class from JSON text."""
        made: T = _made(json.loads(json_str), target_class)
        return made


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    out = {}
    for part in _fields(value):
        found = getattr(value, part.name)
        if found is None and part.metadata.get("json_include") == "non_null":
            continue
        encoder = part.metadata.get("encoder")
        out[_name(part)] = encoder(found) if encoder and found is not None else _plain(found)
    return out


def _made(data: Any, kind: Any) -> Any:  # noqa: ANN401 - any value of JSON, any class
    if data is None:
        return None
    if get_origin(kind) in {Union, UnionType}:  # Optional[X]
        kind = next((one for one in get_args(kind) if one is not type(None)), kind)
    if get_origin(kind) is list:
        return [_made(item, get_args(kind)[0]) for item in data]
    if hasattr(kind, "from_dict"):
        return kind.from_dict(data)
    if not is_dataclass(kind) or not isinstance(data, Mapping):
        return data
    hints, given = get_type_hints(kind), {}
    for part in _fields(kind):
        if _name(part) in data:
            found, decoder = data[_name(part)], part.metadata.get("decoder")
            given[part.name] = decoder(found) if decoder and found is not None else _made(found, hints[part.name])
        elif (missing := part.metadata.get("json_missing_default", MISSING)) is not MISSING:
            given[part.name] = missing
    return kind(**given)  # type: ignore[operator]


def _fields(value: Any) -> list[Field[Any]]:  # noqa: ANN401 - a dataclass or one of its values
    return [part for part in fields(value) if not part.metadata.get("json_ignore")]


def _name(part: Field[Any]) -> str:
    name: str = part.metadata.get("json_name", part.name)
    return name
