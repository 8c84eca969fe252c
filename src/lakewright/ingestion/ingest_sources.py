"""Paths, patterns, tables and frames as checked sources.

Files on this machine are listed here, so that a missing file, an empty directory or a mixture of formats is an error
that names it, and so that no file is skipped without a word: Spark reads neither nested directories nor names that
begin with `_` or `.`. Files elsewhere are listed by Spark when it opens the source.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from lakewright.catalog.catalog import Catalog
from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_table import storage_options
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table

FORMATS = ("parquet", "csv", "json", "orc", "arrow", "table")
FRAME = "frame"
ARROW = "arrow"
TABLE = "table"

_SUFFIXES = {
    "parquet": "parquet",
    "parq": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "orc": "orc",
    "arrow": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
}
_COMPRESSIONS = {"gz", "bz2", "zst", "snappy", "lz4", "deflate", "xz"}  # a.csv.gz is a csv file
_SPELLINGS = {
    "jsonl": "json",
    "ndjson": "json",
    "tsv": "csv",
    "ipc": ARROW,
    "feather": ARROW,
    "lakewright": TABLE,
    "paimon": TABLE,
}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_PATTERN = re.compile(r"[*?\[]")
_PARTITION = re.compile(r"^([^=]+)=")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"([\\{}\[\]*?])")  # what Spark would take for a pattern


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine."""

    path: str
    bytes: int
    values: tuple[tuple[str, str | None], ...] = ()  # of directories named column=value


@dataclass(frozen=True, slots=True)
class IngestSource:
    """One source: what to load, in which format, and its size."""

    name: str  # as the caller gave it
    format: str
    paths: tuple[str, ...] = ()  # escaped as Spark needs them
    files: int | None = None  # None: not counted
    bytes: int | None = None
    partition_columns: tuple[str, ...] = ()  # from directories named column=value
    reader_options: Mapping[str, str] = field(default_factory=dict)  # implied by the names of the files
    table: FileStoreTable | None = None
    frame: object | None = field(default=None, repr=False)  # of an engine
    local: tuple[LocalFile, ...] = ()  # the files, if they are on this machine


SourceInput: TypeAlias = FileStoreTable | str | os.PathLike[str] | IngestSource


def find_sources(
    given: SourceInput | Sequence[SourceInput],
    *,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    catalog: Catalog | None = None,
) -> list[IngestSource]:
    """Return the sources that a call names; raise InvalidInputError for one that does not exist."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    if not several:
        raise InvalidInputError("there is no source: give a file, a directory, a pattern, a table or a frame")
    file_format = None if format is None else _checked_format(argument_checks.check_text("format", format))
    return [_find(one, file_format, catalog) for one in several]


def _checked_format(name: str) -> str:
    known = _SPELLINGS.get(name.lower(), name.lower())
    if known not in FORMATS:
        raise InvalidInputError(
            f"the format {name!r} is none of {', '.join(FORMATS)}; load it with Spark and give the frame", format=name
        )
    return known


def _find(given: SourceInput, file_format: str | None, catalog: Catalog | None) -> IngestSource:
    match given:
        case IngestSource():
            return given
        case FileStoreTable():
            return IngestSource(given.name, TABLE, table=given)
        case str() | os.PathLike():
            return _find_text(argument_checks.check_path("source", given), file_format, catalog)
        case _:
            raise InvalidInputError(
                f"a {type(given).__name__} is no source: give a path, a pattern, a table or a Spark frame; write "
                "pandas, polars and Arrow data with lakewright.write_table"
            )


def _find_text(text: str, file_format: str | None, catalog: Catalog | None) -> IngestSource:
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] != "file":
        return _remote(text, file_format, catalog)
    path = text.removeprefix("file://")
    named = _named_table(text, catalog) if file_format in {None, TABLE} and not Path(path).exists() else None
    if named is not None:
        return IngestSource(text, TABLE, table=named)
    roots = [path] if Path(path).exists() else sorted(_matches(path))
    if not roots:
        raise InvalidInputError(_not_found(text, catalog), source=text)
    if file_format == TABLE or (file_format is None and len(roots) == 1 and _is_table(Path(roots[0]))):
        return IngestSource(text, TABLE, table=open_table(roots[0]))
    return _files(text, roots, file_format)


def local_files(text: str) -> list[Path] | None:
    """Return the files on this machine that a path, a directory or a pattern names; None: they are elsewhere."""
    scheme = _SCHEME.match(text)
    if scheme and scheme[1] != "file":
        return None
    path = text.removeprefix("file://")
    roots = [path] if Path(path).exists() else sorted(_matches(path))
    if not roots:
        raise InvalidInputError(_not_found(text, None), source=text)
    found = (sorted(_walk(Path(root))) if Path(root).is_dir() else [Path(root)] for root in roots)
    return [one.absolute() for files in found for one in files]


def _matches(path: str) -> Iterator[str]:
    if _PATTERN.search(path):
        yield from (
            match
            for match in glob.iglob(path, recursive=True)  # noqa: PTH207 - a pattern may be absolute
            if not _is_hidden(Path(match).name)
        )


def _not_found(text: str, catalog: Catalog | None) -> str:
    place = "" if catalog is None else f", and no table of that name in {catalog.warehouse or 'the catalog'}"
    return f"there is no file, directory or pattern with matches {text!r}{place}: check the path"


def _named_table(text: str, catalog: Catalog | None) -> FileStoreTable | None:
    if catalog is None or "/" in text:
        return None
    try:
        return catalog.get_table(Identifier.from_string(text))
    except (NotFoundError, InvalidInputError):
        return None


def _is_table(path: Path) -> bool:
    return path.is_dir() and any((path / "schema").glob("schema-[0-9]*"))


def _remote(text: str, file_format: str | None, catalog: Catalog | None) -> IngestSource:
    """Return a source on other storage: files that Spark reads, or a table."""
    guessed = file_format or _format_of(text.rstrip("/").rsplit("/", 1)[-1])
    if guessed is not None and guessed != TABLE:
        return IngestSource(text, guessed, (text,), reader_options=_options_by_name([text]))
    try:
        return IngestSource(
            text, TABLE, table=open_table(text, {} if catalog is None else storage_options(catalog.options))
        )
    except NotFoundError as error:
        raise InvalidInputError(
            f"the format of {text!r} cannot be guessed, and there is no table: give the format ({', '.join(FORMATS)})",
            source=text,
        ) from error


# ---- local files -----------------------------------------------------------------------------------------------------


def _files(text: str, roots: Sequence[str], file_format: str | None) -> IngestSource:
    single = [Path(root) for root in roots if not Path(root).is_dir()]
    for path in single:
        if _is_hidden(path.name):
            raise InvalidInputError(
                f"files whose names begin with '_' or '.' are taken for hidden ones, such as {path.name!r}: rename it",
                source=text,
            )
    inside = {Path(root): sorted(_walk(Path(root))) for root in roots if Path(root).is_dir()}
    files = [*single, *(path for paths in inside.values() for path in paths)]
    if not files:
        raise InvalidInputError(f"the directory {text!r} holds no files", source=text)
    bases, columns = _bases(text, inside)
    local = tuple(_local(path) for path in single) + tuple(
        _local(path, path.parent.relative_to(root).parts, len(columns))
        for root, paths in inside.items()
        for path in paths
    )
    return IngestSource(
        text,
        file_format or _common_format(text, files),
        tuple(_escape_pattern(path) for path in (*single, *bases)),
        len(files),
        sum(one.bytes for one in local),
        columns,
        _options_by_name([path.name for path in files]),
        local=local,
    )


def _local(path: Path, directories: Sequence[str] = (), values: int = 0) -> LocalFile:
    """Return a file with the values of its last `values` directories, which are named column=value."""
    pairs = [part.split("=", 1) for part in directories[len(directories) - values :]]
    named = tuple((name, None if text == _NO_VALUE else unquote(text)) for name, text in pairs)
    return LocalFile(str(path.absolute()), path.stat().st_size, named)


def part_of(source: IngestSource, files: Sequence[LocalFile]) -> IngestSource:
    """Return some files of a source as a source of its own."""
    names = [Path(file.path).name for file in files]
    return replace(
        source,
        name=source.name
        if len(files) == len(source.local)
        else f"{source.name}: {names[0]}{_and_more(len(files) - 1)}",
        paths=tuple(_escape_pattern(Path(file.path)) for file in files),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        local=tuple(files),
    )


def _and_more(files: int) -> str:
    return "" if files == 0 else f" and {files:,} more"


def _walk(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not _is_hidden(name))
        yield from (Path(directory, name) for name in files if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _bases(text: str, inside: Mapping[Path, Iterable[Path]]) -> tuple[list[Path], tuple[str, ...]]:
    """Return the directories with files, cut before those named column=value, and the columns that these name."""
    bases: set[Path] = set()
    columns: set[tuple[str, ...]] = set()
    for root, paths in inside.items():
        for parent in {path.parent for path in paths}:
            parts = parent.relative_to(root).parts
            plain = len(parts)
            while plain and _PARTITION.match(parts[plain - 1]):
                plain -= 1
            bases.add(root.joinpath(*parts[:plain]))
            columns.add(tuple(part.split("=", 1)[0] for part in parts[plain:]))
    if len(columns) > 1 or (columns and columns != {()} and len(bases) > 1):
        raise InvalidInputError(
            f"the directory {text!r} mixes files inside and outside of directories named column=value, or has several "
            "roots of them: give each as a source of its own",
            source=text,
        )
    return sorted(bases), next(iter(columns), ())


def _escape_pattern(path: Path) -> str:
    return _SPECIAL.sub(r"\\\1", str(path.absolute()))


# ---- formats ---------------------------------------------------------------------------------------------------------


def _format_of(name: str) -> str | None:
    return _SUFFIXES.get(_suffix(name))


def _suffix(name: str) -> str:
    parts = name.lower().split(".")
    while len(parts) > 1 and parts[-1] in _COMPRESSIONS:
        parts.pop()
    return parts[-1] if len(parts) > 1 else ""


def _common_format(text: str, paths: Iterable[Path]) -> str:
    by_format: dict[str | None, Path] = {}
    for path in paths:
        by_format.setdefault(_format_of(path.name), path)
    formats = sorted(known for known in by_format if known is not None)
    if len(by_format) == 1 and formats:
        return formats[0]
    if None in by_format:
        raise InvalidInputError(
            f"{text!r}: the name of {str(by_format[None])!r} does not say its format; give the format "
            f"({', '.join(FORMATS)}), or move the file away",
            source=text,
        )
    raise InvalidInputError(
        f"{text!r} holds files of several formats ({', '.join(formats)}): give each format as a source of its own",
        source=text,
    )


def _options_by_name(names: Iterable[str]) -> dict[str, str]:
    """Return the reader options that the names of files imply."""
    suffixes = {_suffix(name) for name in names}
    if suffixes == {"tsv"}:
        return {"sep": "\t"}
    if suffixes and suffixes <= {"jsonl", "ndjson"}:
        return {"multiLine": "false"}
    return {}
