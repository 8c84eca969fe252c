"""Paths into VARIANT values, such as `$.a.b[0]`, and what is found there."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.variant_encoding import variant_array
from lakewright.spec.variant_json import format_floats, format_json, format_plain
from lakewright.spec.variant_values import ARRAY, OBJECT, Ints, VariantNodes, combine, expand

_STEP = re.compile(r"""\.(?P<name>[^.\[\]'"]+)|\[(?P<index>[0-9]+)\]|\['(?P<single>[^']*)'\]|\["(?P<double>[^"]*)"\]""")


def parse_path(text: str) -> tuple[str | int, ...]:
    """Return the keys and positions of a path.

    >>> parse_path("$.a['b c'][0]")
    ('a', 'b c', 0)
    """
    steps: list[str | int] = []
    position = 1
    while text[:1] == "$" and position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            break
        position = found.end()
        steps.append(
            int(found["index"]) if found["index"] else next(part for part in found.groups() if part is not None)
        )
    if text[:1] != "$" or position < len(text):
        raise InvalidInputError(f"{text!r} is not a path into a variant: write one such as $.a, $['a b'] or $.list[0]")
    return tuple(steps)


def find_values(nodes: VariantNodes, path: tuple[str | int, ...]) -> tuple[Ints, VariantNodes]:
    """Return which values have something at a path, and what."""
    rows = np.arange(len(nodes))
    for step in path:
        nested = nodes.kinds == (OBJECT if isinstance(step, str) else ARRAY)
        rows = rows[nested]
        members = expand(nodes.take(nested))
        if isinstance(step, str):
            named = np.flatnonzero(np.asarray(pc.equal(nodes.keys.names, step)))
            chosen = np.isin(members.names, named)
        else:
            first = np.cumsum(members.counts) - members.counts
            chosen = np.arange(len(members.nodes)) - first[members.owners] == step
        rows, nodes = rows[members.owners[chosen]], members.nodes.take(chosen)
    return rows, nodes


def variants_of(nodes: VariantNodes) -> pa.StructArray:
    """Return values as a VARIANT column; each keeps all keys of its row."""
    return variant_array(nodes.encoded, nodes.keys.encoded.take(pa.array(nodes.dictionaries)))


def texts_of(nodes: VariantNodes, zone: str) -> pa.LargeStringArray:
    """Return values as texts: those of scalars have no quotes, objects and arrays are JSON, null is null."""
    nested = np.flatnonzero(nodes.kinds >= OBJECT)
    parts = [(nested, format_json(nodes.take(nested), zone))]
    for places, values in nodes.scalar_arrays():
        dtype = values.type
        if pa.types.is_large_string(dtype):
            parts.append((places, values))
        elif pa.types.is_floating(dtype):
            parts.append((places, pc.utf8_trim(format_floats(values), '"')))
        elif pa.types.is_temporal(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
            parts.append((places, format_plain(values, zone)))
        elif not pa.types.is_null(dtype):
            parts.append((places, format_json(nodes.take(places))))
    return combine(parts, len(nodes))
