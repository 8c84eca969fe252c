"""The data files of a directory: a storage and a directory in, files with the values of their partitions out.

Directories are either all of the form `column=value`, as Hive and Spark write them, or none is. Names that begin with
`_` or `.` are not data. A directory that belongs to a table of another kind is refused: which of its files count is
said elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lakewright.errors import InvalidInputError
from lakewright.storage.base import FileInfo, Storage

_NULL = ("__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__")
_OWNERS = {
    "_delta_log": "a Delta Lake table",
    ".hoodie": "a Hudi table",
    "_spark_metadata": "the sink of a Spark stream",
    "_temporary": "a job that is still writing, or was cut short",
}


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file, and the texts of its partition values by the names of the columns; None is null."""

    path: str
    size: int
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a directory holds."""

    directory: str
    files: tuple[FoundFile, ...]
    left: tuple[str, ...]  # files that are not data

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the partition columns."""
        return tuple(self.files[0].values) if self.files else ()


def list_files(storage: Storage, directory: str) -> Listing:
    """Return the data files below a directory; raise InvalidInputError if they cannot be one table."""
    _check_not_owned(storage, directory)
    found, left = [], []
    for info in sorted(storage.walk(directory), key=lambda info: info.path):
        *parents, name = info.path.removeprefix(f"{directory.rstrip('/')}/").split("/")
        if any(_is_hidden(part) for part in (*parents, name)):
            left.append(info.path)
            continue
        found.append(_file_of(info, parents))
    if not found:
        raise InvalidInputError(f"there are no data files in {directory}: check the path", path=directory)
    keys = tuple(found[0].values)
    for file in found:
        if tuple(file.values) != keys:
            raise InvalidInputError(
                f"{file.path} lies in partitions by {_named(tuple(file.values))}, and {found[0].path} by "
                f"{_named(keys)}: move one kind into a directory of its own",
                path=file.path,
            )
    return Listing(directory, tuple(found), tuple(left))


def _check_not_owned(storage: Storage, directory: str) -> None:
    names = {path.rstrip("/").rpartition("/")[2] for path in storage.list_directories(directory)}
    owner = next((owner for name, owner in _OWNERS.items() if name in names), None)
    if owner is None and {"schema", "snapshot"} <= names:
        owner = "a Paimon table, which needs no migration"
    if owner is None and "metadata" in names:
        inside = storage.list(f"{directory.rstrip('/')}/metadata")
        owner = "an Iceberg table" if any(info.path.endswith(".metadata.json") for info in inside) else None
    if owner is not None:
        raise InvalidInputError(
            f"{directory} belongs to {owner}: not all of its files are rows of today; read it with its own library "
            "and write the rows",
            path=directory,
        )


def _file_of(info: FileInfo, parents: Sequence[str]) -> FoundFile:
    pairs = [part.partition("=") for part in parents]
    plain = [part for part, (name, sign, _) in zip(parents, pairs, strict=True) if not sign or not name]
    if plain and len(plain) < len(parents):
        raise InvalidInputError(
            f"{info.path}: the directory {plain[0]!r} stands among partitions named column=value; move its files",
            path=info.path,
        )
    values = {} if plain else {unquote(name): None if text in _NULL else unquote(text) for name, _, text in pairs}
    if not plain and len(values) != len(parents):
        raise InvalidInputError(f"{info.path}: a partition column occurs twice; move its files", path=info.path)
    return FoundFile(info.path, info.size, values)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _named(keys: Sequence[str]) -> str:
    return ", ".join(keys) or "nothing"
