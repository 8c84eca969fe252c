"""What the files of each format can hold and be compressed with.

`formats.format_registry` has the functions that read and write them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lakewright.errors import UnsupportedError
from lakewright.spec.types import (
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    VectorType,
    types_inside,
)


@dataclass(frozen=True, slots=True)
class FormatRules:
    """The rules of one file format; `refuses` returns what to do about a type that its files cannot hold, or None."""

    title: str
    codecs: tuple[str, ...]
    refuses: Callable[[DataType], str | None]
    has_statistics: bool = True  # of columns in manifests; keys always have some


def _refuse_nothing(_: DataType) -> str | None:
    return None


def _refuse_in_orc(dtype: DataType) -> str | None:
    return "use file.format=parquet" if isinstance(dtype, VectorType) or _is_variant(dtype) else None


def _is_variant(dtype: DataType) -> bool:
    return isinstance(dtype, AtomicType) and dtype.root == "VARIANT"


_AVRO_PRECISION = {"TIME": 3, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}


def _refuse_in_avro(dtype: DataType) -> str | None:
    if _is_variant(dtype):
        return "use file.format=parquet"
    limit = _AVRO_PRECISION.get(dtype.root) if isinstance(dtype, AtomicType) else None
    if limit is None or not isinstance(dtype, AtomicType) or dtype.precision <= limit:
        return None
    return f"lower its precision to {limit}, or use another file format"


_NOT_IN_LANCE = {"VARIANT", "BLOB", "TIMESTAMP_LTZ", "GEOMETRY", "GEOGRAPHY"}


def _refuse_in_lance(dtype: DataType) -> str | None:
    is_refused = isinstance(dtype, AtomicType) and dtype.root in _NOT_IN_LANCE
    return "use file.format=parquet" if is_refused or isinstance(dtype, MapType | MultisetType) else None


FORMAT_RULES = {
    "parquet": FormatRules("Parquet", ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed"), _refuse_nothing),
    "orc": FormatRules("ORC", ("zstd", "snappy", "zlib", "gzip", "lz4", "none", "uncompressed"), _refuse_in_orc),
    "avro": FormatRules(
        "Avro",
        ("zstd", "zstandard", "snappy", "deflate", "gzip", "bzip2", "xz", "null", "none", "uncompressed"),
        _refuse_in_avro,
    ),
    # Lance chooses its own encodings, whatever the compression of the table.
    "lance": FormatRules(
        "Lance",
        ("zstd", "zstandard", "snappy", "gzip", "zlib", "deflate", "lz4", "null", "none", "uncompressed"),
        _refuse_in_lance,
        has_statistics=False,
    ),
}


def check_formats(formats: Collection[str], fields: Iterable[DataField]) -> None:
    """Raise UnsupportedError for columns that files of one of the formats cannot hold; unknown formats refuse none."""
    rules = [FORMAT_RULES[name] for name in sorted(formats) if name in FORMAT_RULES]
    for column in fields:
        for part in types_inside(column.type):
            for rule in rules:
                remedy = rule.refuses(part)
                if remedy is not None:
                    raise UnsupportedError(
                        f"the column {column.name!r} of type {column.type} cannot be written: {rule.title} files "
                        f"cannot hold {part}; {remedy}",
                        column=column.name,
                        type=str(part),
                    )
