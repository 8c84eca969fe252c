"""One schema for files of several: the columns of each file in, the columns of the table out, or the file that differs.

The table has every column of any file; a file that lacks one reads as null there. Where files have a column in several
types that only widen (INT and BIGINT, FLOAT and DOUBLE, decimals with more digits), the table gets one schema for each
combination of types, from the narrowest to the widest, as if the column had been changed over time: every reader knows
how to read a file with the schema it was written with. Any other difference is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow import from_arrow_type
from lakewright.spec.types import DataType

Columns: TypeAlias = Mapping[str, pa.DataType]

_LADDERS = ([pa.int8(), pa.int16(), pa.int32(), pa.int64()], [pa.float32(), pa.float64()])


def reconcile(files: Mapping[str, Columns]) -> list[dict[str, pa.DataType]]:
    """Return the columns of the table as they change from the first schema to the last; `files` are by their paths.

    >>> a, b = {"id": pa.int32()}, {"id": pa.int64(), "note": pa.string()}
    >>> [{name: str(arrow) for name, arrow in one.items()} for one in reconcile({"a": a, "b": b})]
    [{'id': 'int32', 'note': 'string'}, {'id': 'int64', 'note': 'string'}]
    """
    types: dict[str, list[tuple[pa.DataType, str]]] = {}  # of each column, every type and the first file with it
    for path, columns in files.items():
        for name, arrow in columns.items():
            known = types.setdefault(name, [])
            if not any(arrow.equals(other) for other, _ in known):
                known.append((arrow, path))
    _check_spelling(types)
    for name, known in list(types.items()):
        first, first_path = known[0]
        for arrow, path in known[1:]:
            if _step(first, arrow) is None:
                raise _differs(name, path, arrow, first_path, first)
        types[name] = sorted(known, key=cmp_to_key(_compare))
    ranks = {name: {str(arrow): rank for rank, (arrow, _) in enumerate(known)} for name, known in types.items()}
    return _chain(files, types, ranks)


def _check_spelling(types: Mapping[str, Sequence[tuple[pa.DataType, str]]]) -> None:
    """Raise InvalidInputError for columns of two files that differ in case alone: most engines take them for one."""
    spelled: dict[str, str] = {}
    for name, known in types.items():
        other = spelled.setdefault(name.casefold(), name)
        path, other_path = known[0][1], types[other][0][1]
        if path != other_path:
            raise InvalidInputError(
                f"a column is named {name!r} in {path} and {other!r} in {other_path}, and most engines take them for "
                "one: load one of the files with `lakewright ingest`, which matches names without case",
                column=name,
                path=path,
                other_path=other_path,
            )


def _chain(
    files: Mapping[str, Columns],
    types: Mapping[str, Sequence[tuple[pa.DataType, str]]],
    ranks: Mapping[str, Mapping[str, int]],
) -> list[dict[str, pa.DataType]]:
    """Return the distinct combinations of types, each at least as wide as the one before in every column."""
    combinations: dict[tuple[int, ...], str] = {}
    for path, columns in files.items():
        place = tuple(ranks[name][str(columns[name])] if name in columns else 0 for name in types)
        combinations.setdefault(place, path)
    ordered = sorted(combinations, key=lambda place: (sum(place), place))
    for before, after in pairwise(ordered):
        for at, name in enumerate(types):
            if after[at] < before[at]:
                narrow, wide = types[name][after[at]][0], types[name][before[at]][0]
                raise _differs(name, combinations[after], narrow, combinations[before], wide)
    return [{name: types[name][rank][0] for name, rank in zip(types, place, strict=True)} for place in ordered]


def _step(first: pa.DataType, other: pa.DataType) -> int | None:
    """Return how much wider a type is than another, negative if it is narrower; None if neither widens to the other."""
    if pa.types.is_decimal(first) and pa.types.is_decimal(other) and first.scale == other.scale:
        return int(other.precision - first.precision)
    for ladder in _LADDERS:
        if first in ladder and other in ladder:
            return ladder.index(other) - ladder.index(first)
    return None


def _compare(one: tuple[pa.DataType, str], other: tuple[pa.DataType, str]) -> int:
    return _step(other[0], one[0]) or 0


def fits(columns: Columns, schema: Mapping[str, pa.DataType]) -> bool:
    """Say whether a schema describes the columns of a file: it has each of them in its type."""
    return all(name in schema and arrow.equals(schema[name]) for name, arrow in columns.items())


def _differs(column: str, path: str, arrow: pa.DataType, other_path: str, other: pa.DataType) -> InvalidInputError:
    return InvalidInputError(
        f"the column {column!r} is {_type(arrow)} in {path} and {_type(other)} in {other_path}: no schema describes "
        "both files; load one of them with `lakewright ingest`, which converts values",
        column=column,
        path=path,
        other_path=other_path,
    )


def _type(arrow: pa.DataType) -> DataType:
    return from_arrow_type(arrow)
