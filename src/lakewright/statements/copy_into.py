"""COPY INTO: settings, readers, writers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lakewright.commit.job_ids import earlier_of_job
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.types import DataField
from lakewright.statements.change_query import Side
from lakewright.statements.statements import CopyIn, CopyOut

# From the options of FILE_FORMAT to those of Spark's readers and writers.
_OPTIONS = {
    "FIELD_DELIMITER": "sep",
    "DELIMITER": "sep",
    "SEP": "sep",
    "HEADER": "header",
    "SKIP_HEADER": "header",
    "NULL_IF": "nullValue",
    "NULL_VALUE": "nullValue",
    "NULLVALUE": "nullValue",
    "EMPTY_FIELD_AS_NULL": "emptyValue",
    "QUOTE": "quote",
    "FIELD_OPTIONALLY_ENCLOSED_BY": "quote",
    "ESCAPE": "escape",
    "ENCODING": "encoding",
    "COMPRESSION": "compression",
    "MULTI_LINE": "multiLine",
    "MULTILINE": "multiLine",
    "DATE_FORMAT": "dateFormat",
    "TIMESTAMP_FORMAT": "timestampFormat",
    "LINE_DELIMITER": "lineSep",
    "RECORD_DELIMITER": "lineSep",
}
_FLAGS = {"true", "false"}


@dataclass(frozen=True, slots=True)
class CopySettings:
    """What COPY INTO a table does with its files."""

    force: bool = False  # files that were loaded already are loaded again
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, statement: CopyIn) -> CopySettings:
        """Read the settings; one that is not known or not supported is an error."""
        given = statement.settings
        force = given.get("FORCE", "false").lower()
        if force not in _FLAGS:
            raise statement.text.error(f"FORCE takes TRUE or FALSE, not {force}")
        if given.get("ON_ERROR", "ABORT_STATEMENT").upper() not in {"ABORT_STATEMENT", "ABORT"}:
            message = (
                f"ON_ERROR = {given['ON_ERROR']} is not supported: a file with a wrong row is an error; load it with "
            )
            raise statement.text.error(f"{message}lakewright.spark.ingest, which can skip rows", kind=UnsupportedError)
        for name in given.keys() - {"FORCE", "ON_ERROR", "PATTERN"}:
            raise statement.text.error(f"{name} is not supported in COPY INTO", kind=UnsupportedError)
        try:
            pattern = re.compile(given["PATTERN"]) if "PATTERN" in given else None
        except re.error as error:
            raise statement.text.error(f"PATTERN is no regular expression: {error}") from None
        return cls(force == "true", pattern)

    def takes(self, path: str) -> bool:
        """Return whether a file is loaded: its name fits the pattern."""
        return self.pattern is None or self.pattern.fullmatch(path.rsplit("/", 1)[-1]) is not None


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it is now: when its path, time or size differ, it is another one."""

    path: str
    modified_ms: int
    bytes: int

    @property
    def job_id(self) -> str:
        """The job that loads the file, which is committed once."""
        path = re.sub("^file:/+", "/", self.path)
        return f"copy {hashlib.sha256(f'{path} {self.modified_ms} {self.bytes}'.encode()).hexdigest()}"


def load_files(
    store: TableStore,
    settings: CopySettings,
    files: Iterable[FileVersion],
    load: Callable[[Sequence[str], str | None], int],
) -> int:
    """Load files, each in a snapshot of its own and once, and return how many rows were loaded.

    With FORCE they are all loaded, in one snapshot. A file that fails stops the statement; those before it stay loaded,
    and a later run goes on there. `load` writes the rows of some files as one job, and returns how many there are.
    """
    taken = sorted((file for file in files if settings.takes(file.path)), key=lambda file: file.path)
    if settings.force:
        return load([file.path for file in taken], None) if taken else 0
    new = (file for file in taken if earlier_of_job(store, file.job_id) is None)
    return sum(load([file.path], file.job_id) for file in new)


def matched_columns(
    store: TableStore, statement: CopyIn, names: Sequence[str], path: str
) -> list[tuple[DataField, int]]:
    """Return the columns of the table that columns of a file with names fill, each with its place in the file."""
    places = {name.casefold(): at for at, name in enumerate(names)}
    found = [(field, places.get(field.name.casefold())) for field in copied_fields(store, statement)]
    out = [(field, at) for field, at in found if at is not None]
    if not out:
        message = f"{path} has no column of {store.name}; it has {', '.join(names)}"
        raise statement.text.error(message, kind=InvalidInputError, table=store.name, source=path)
    return out


def is_overwrite(statement: CopyOut) -> bool:
    """Return whether files that are in the directory are replaced."""
    given = statement.settings.get("OVERWRITE", "false").lower()
    if given not in _FLAGS:
        raise statement.text.error(f"OVERWRITE takes TRUE or FALSE, not {given}")
    return given == "true"


def reader_options(statement: CopyIn) -> dict[str, str]:
    """Return the options of the reader of files."""
    return _options(statement)


def writer_options(statement: CopyOut) -> dict[str, str]:
    """Return the options of the writer of files."""
    given = {key: value for key, value in statement.settings.items() if key == "HEADER"}
    for name in statement.settings.keys() - {"HEADER", "OVERWRITE"}:
        raise statement.text.error(f"{name} is not supported in COPY INTO a directory", kind=UnsupportedError)
    return _options(statement) | ({"header": given["HEADER"].lower()} if given else {})


def _options(statement: CopyIn | CopyOut) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in statement.options.items():
        if name not in _OPTIONS:
            known = ", ".join(sorted(_OPTIONS))
            raise statement.text.error(
                f"FILE_FORMAT has no option {name}; there are TYPE, {known}", kind=InvalidInputError
            )
        key = _OPTIONS[name]
        if name == "SKIP_HEADER" and value not in {"0", "1"} and value.lower() not in _FLAGS:
            raise statement.text.error(f"SKIP_HEADER = {value}: one line can be skipped", kind=UnsupportedError)
        if name == "EMPTY_FIELD_AS_NULL":
            out |= {"nullValue": ""} if value.lower() == "true" else {}
            continue
        if "\n" in value and name == "NULL_IF":
            raise statement.text.error("NULL_IF takes one text here", kind=UnsupportedError)
        out[key] = {"1": "true", "0": "false"}.get(value, value.lower()) if key == "header" else value
    return out


def copied_fields(store: TableStore, statement: CopyIn) -> list[DataField]:
    """Return the columns of the table that the columns of the files fill, in their order."""
    if statement.columns is None:
        return list(store.schema.fields)
    side, out = Side(store.name, store.schema.field_names), []
    for name in statement.columns:
        column = side.column(name)
        if column is None:
            message = f"{store.name} has no column {name!r}; it has {', '.join(store.schema.field_names)}"
            raise statement.table.place.error(message, kind=ColumnNotExistException, table=store.name, column=name)
        out.append(store.schema.field(column))
    return out
