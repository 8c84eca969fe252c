"""Checks of the schema in an Avro file: parsed JSON in, a checked schema out, or a ValueError that says why not.

The checks run once for each file, so that no record has to be checked: afterwards every expected field has the expected
type, or is None. Always holds for an accepted schema: it is not recursive, and every record and every array item takes
at least one byte, so a damaged count cannot create more objects than the file has bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import fastavro
from fastavro.schema import SchemaParseException

AvroSchema: TypeAlias = "str | list[AvroSchema] | dict[str, object]"

DEPTH_MAX = 64
NODES_MAX = 100_000

_PRIMITIVES = frozenset("null boolean int long float double bytes string".split())


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The checked schema of one file."""

    record: dict[str, Any]
    entry: AvroSchema  # of an item of a block: the record, or a union with it


def file_schema(schema: object) -> FileSchema:
    """Check the schema in the header of a file, and return the record in it.

    References to named types are replaced by their definitions. `logicalType` is renamed to `logical`, so that fastavro
    ignores it and gives numbers as they are in the file.

    >>> file_schema(["null", {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}]).record["name"]
    'type1'
    """
    entry = _Checker().plain(schema)
    records = [branch for branch in branches(entry) if branch != "null"]
    if len(records) != 1 or not isinstance(records[0], dict) or records[0]["type"] != "record":
        raise ValueError("its schema is not one record")
    if _width_zero(records[0]):
        raise ValueError("its records take no bytes")
    return FileSchema(records[0], entry)


def parsed(schema: object) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return a schema in the form that fastavro encodes and decodes with."""
    try:
        return fastavro.parse_schema(schema)  # type: ignore[arg-type]  # it is checked
    except SchemaParseException as error:
        raise ValueError(str(error)) from error


def block_schema(schema: FileSchema) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return the schema by which fastavro codes a whole block: an array of records."""
    return parsed({"type": "array", "items": schema.entry})


def check_readable(record: object, expected: object, place: str = "") -> None:
    """Raise ValueError if a record schema lacks an expected field, or has it with a type that cannot be read."""
    types = {str(member["name"]): member["type"] for member in _fields(record)}
    for member in _fields(expected):
        name = str(member["name"])
        if name in types:
            _check_type(types[name], member["type"], f"{place}{name}")
        elif "default" not in member:
            raise ValueError(f"its schema has no field {place}{name}")


def _check_type(stored: object, expected: object, place: str) -> None:
    """Raise ValueError if a type has values of another than the expected type. A record or an array may be null."""
    allowed = {_keyword(branch): branch for branch in branches(expected)}
    for branch in branches(stored):
        keyword = _keyword(branch)
        if keyword == "int" and "int" not in allowed:
            keyword = "long"
        if keyword == "null" and ("null" in allowed or allowed.keys() & {"record", "array"}):
            continue  # some writers leave out empty statistics
        if keyword not in allowed:
            raise ValueError(f"its field {place} has the type {keyword}")
        match branch, allowed[keyword]:
            case {"type": "record", "fields": _}, {"type": "record", "fields": _}:
                check_readable(branch, allowed[keyword], f"{place}.")
            case {"type": "array", "items": items}, {"type": "array", "items": expected_items}:
                _check_type(items, expected_items, f"{place}[]")


@dataclass(slots=True)
class _Checker:
    """Walks a schema once: replaces names by definitions, and raises ValueError for recursive or too large ones."""

    definitions: dict[str, object] = field(default_factory=dict)
    nodes: int = 0
    types: int = 0

    def plain(self, schema: Any, depth: int = 0) -> AvroSchema:  # noqa: ANN401 - JSON
        """Return the schema with definitions in place of names, and only the attributes that are used here."""
        self.nodes += 1
        if depth > DEPTH_MAX or self.nodes > NODES_MAX:
            raise ValueError(f"its schema is more than {DEPTH_MAX} levels deep or has more than {NODES_MAX} parts")
        match schema:
            case str():
                return self._named(schema, depth)
            case list():
                return [self.plain(branch, depth + 1) for branch in schema]
            case {"type": "array", "items": items}:
                return self._array(items, depth)
            case {"type": "map", "values": values}:
                return {"type": "map", "values": self.plain(values, depth + 1)}
            case {"type": "record" | "fixed" | "enum" as kind, "name": str(name)}:
                plain = {"type": kind, "name": self._unique()} | self._parts(schema, depth)
                self.definitions[name.rpartition(".")[2]] = schema
                return plain
            case {"type": str(name), "logicalType": str(logical)} if name in _PRIMITIVES:
                return {"type": name, "logical": logical, "scale": schema.get("scale", 0)}
            case {"type": str() | dict() | list() as inner}:
                return self.plain(inner, depth + 1)
            case _:
                raise ValueError("its schema is not one of Avro")

    def _parts(self, schema: dict[str, object], depth: int) -> dict[str, object]:
        """Return the attributes of a definition other than its name."""
        match schema:
            case {"type": "record", "fields": list(fields)}:
                return {"fields": self._members(fields, depth)}
            case {"type": "fixed", "size": int(size)}:
                return {"size": size, "scale": schema.get("scale", 0)}
            case {"type": "enum", "symbols": list(symbols)}:
                return {"symbols": symbols}
            case _:
                raise ValueError("its schema has a definition that is cut short")

    def _named(self, name: str, depth: int) -> AvroSchema:
        if name in _PRIMITIVES:
            return name
        # A definition is stored only when it is complete, so a type that contains itself is not found here.
        definition = self.definitions.get(name.rpartition(".")[2])
        if definition is None:
            raise ValueError(f"its schema uses the type {name!r} outside or inside of its definition")
        return self.plain(definition, depth + 1)

    def _unique(self) -> str:
        """Return a name that no other type of the schema has: one definition may be copied to several places."""
        self.types += 1
        return f"type{self.types}"

    def _array(self, items: object, depth: int) -> AvroSchema:
        plain = self.plain(items, depth + 1)
        if _width_zero(plain):
            raise ValueError("its schema has an array of items that take no bytes")
        return {"type": "array", "items": plain}

    def _members(self, fields: list[object], depth: int) -> list[dict[str, object]]:
        members: list[dict[str, object]] = []
        for member in fields:
            match member:
                case {"name": str(name), "type": inner}:
                    members.append({"name": name, "type": self.plain(inner, depth + 1)})
                case _:
                    raise ValueError("its schema has a field without name or type")
        return members


def _width_zero(schema: object) -> bool:
    """Say whether a value of the type takes no bytes at all."""
    match schema:
        case "null":
            return True
        case {"type": "record"}:
            return all(_width_zero(member["type"]) for member in _fields(schema))
        case {"type": "fixed", "size": int(size)}:
            return size <= 0
        case _:
            return False


def _fields(record: object) -> Iterator[dict[str, object]]:
    match record:
        case {"fields": list(fields)}:
            yield from fields


def branches(schema: AvroSchema | object) -> list[Any]:
    """Return the types of a union; any other type as a list of one."""
    return schema if isinstance(schema, list) else [schema]


def _keyword(schema: object) -> str:
    match schema:
        case {"type": str(keyword)}:
            return keyword
        case str():
            return schema
        case _:
            raise ValueError("its schema is not one of Avro")
