"""Local files to batches: csv and json as texts, parquet and orc as they are, a part of a file at a time.

Every record of a file has a number, counted from zero over the records that could be read. Where one of them is bad,
the file is looked at again for its line and its text; that costs nothing while all is well.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pyarrow import orc

from lakewright.errors import InvalidInputError
from lakewright.ingestion.rows import SetAside
from lakewright.ingestion.sources import LocalFile, Source, part_of
from lakewright.ingestion.text import guess
from lakewright.spec.arrow import from_arrow_schema
from lakewright.spec.types import DataField

Record: TypeAlias = "dict[str, Any]"
Loads: TypeAlias = Callable[..., Any]

BLOCK_BYTES = 8 << 20
ROWS = 64 << 10  # of parquet at a time
PACKED = frozenset({"gz", "bz2", "zst", "lz4"})  # what pyarrow unpacks
_UNPACKED = frozenset({"snappy", "deflate", "xz"})
# Of Spark's reader, by the names that it has for them.
CSV_OPTIONS = frozenset(
    {"sep", "delimiter", "quote", "escape", "encoding", "charset", "nullValue", "multiLine", "header"}
    | {"dateFormat", "timestampFormat", "timestampNTZFormat"}
)
JSON_OPTIONS = frozenset({"multiLine", "encoding", "charset", "dateFormat", "timestampFormat", "timestampNTZFormat"})


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How a text file is written."""

    sep: str = ","
    quote: str = '"'
    escape: str | None = None
    encoding: str = "utf-8"
    null: str = ""
    header: bool = True
    lines: bool = False  # a json file has a record per line; otherwise its first line tells

    @classmethod
    def of_options(cls, options: Mapping[str, str], *, header: bool) -> TextFormat:
        """Read the options of a reader; the names are those of Spark's."""
        escape = options.get("escape")
        quote = options.get("quote", '"')
        return cls(
            options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t"),
            quote,
            None if escape in {None, "", quote} else escape,
            options.get("encoding", options.get("charset", "utf-8")),
            options.get("nullValue", ""),
            header,
            options.get("multiLine", "").lower() == "false",
        )

    @property
    def python_encoding(self) -> str:
        """The encoding, with a mark at the beginning left out."""
        return "utf-8-sig" if self.encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else self.encoding


def why_not_here(source: Source, options: Mapping[str, str]) -> str | None:
    """Say why only Spark can read a source, None where this process can."""
    if source.format == "frame" or (source.table is None and not source.local):
        return f"{source.name} is not on this machine's disk"
    known = {"csv": CSV_OPTIONS, "json": JSON_OPTIONS}.get(source.format, frozenset())
    unknown = sorted(set(options) - known)
    if unknown and source.table is None:
        return f"{unknown[0]!r} is an option of Spark's reader of {source.format}"
    packed = next((f.path for f in source.local if f.path.rsplit(".", 1)[-1].lower() in _UNPACKED), None)
    return None if packed is None else f"{packed} is compressed in a way that only Spark reads"


def _opened(path: str) -> pa.NativeFile:
    return pa.input_stream(path, compression="detect")


def _lines(path: str, form: TextFormat) -> io.TextIOWrapper:
    return io.TextIOWrapper(_opened(path), encoding=form.python_encoding, newline="")


# ---- columns ---------------------------------------------------------------------------------------------------------


def parts_of(source: Source, form: TextFormat) -> list[tuple[Source, tuple[str, ...]]]:
    """Split a source of csv, parquet or orc files into those with the same columns; with the names of csv columns."""
    groups: dict[object, list[LocalFile]] = {}
    names: dict[object, tuple[str, ...]] = {}
    for file in source.local:
        header = _header(file.path, form) if source.format == "csv" else ()
        key: object = header if source.format == "csv" else arrow_schema(file.path, source.format)
        if source.format == "csv" and not header:
            continue  # an empty file has no rows either
        groups.setdefault(key, []).append(file)
        names[key] = header
    if not groups:
        raise InvalidInputError(f"the csv source {source.name!r} has no header line: it is empty", source=source.name)
    if len(groups) == 1 and len(source.local) == sum(map(len, groups.values())):
        return [(source, next(iter(names.values())))]
    return [(part_of(source, files), names[key]) for key, files in groups.items()]


def _header(path: str, form: TextFormat) -> tuple[str, ...]:
    """Return the first record of a csv file; where it is no header, numbers in its place (c0, c1, ...)."""
    try:
        with _lines(path, form) as lines:
            first = next((row for row in _records(lines, form) if row), None)
    except UnicodeError as error:
        raise _not_encoded(path, form, error) from None
    if first is None:
        return ()
    if not form.header:
        return tuple(f"c{i}" for i in range(len(first)))
    return tuple(name if name.strip() else f"_c{i}" for i, name in enumerate(first))


def _records(lines: Iterable[str], form: TextFormat) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=form.sep,
        quotechar=form.quote or None,
        escapechar=form.escape,
        doublequote=form.escape is None,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
    )


def _not_encoded(path: str, form: TextFormat, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{path}: the text is not {form.encoding} ({error}); say how it is encoded with the reader option 'encoding', "
        "such as encoding=latin1",
        source=path,
    )


def header_warnings(names: Sequence[str]) -> tuple[str, ...]:
    """Say what makes a header look like data."""
    odd = [name for name in names if guess(pa.array([name.strip()])).type.root not in {"VARCHAR", "BOOLEAN"}]
    empty = [name for i, name in enumerate(names) if name == f"_c{i}"]
    if odd:
        return (
            f"the header looks like data ({odd[0]!r} is a value, no name); if it is data, say that there is no header",
        )
    return (f"a column has no name in the header and is called {empty[0]!r}",) if empty else ()


def arrow_schema(path: str, format: str) -> pa.Schema:  # noqa: A002 - what every reader of files calls it
    """Return the columns of a parquet or orc file."""
    try:
        schema = pq.read_schema(path) if format == "parquet" else orc.ORCFile(path).schema
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInputError(f"{path}: it cannot be read as {format} ({error})", source=path) from error
    return schema.remove_metadata()


def nullable_fields(schema: pa.Schema) -> tuple[DataField, ...]:
    """Return Arrow columns as columns of a table, which may all be null."""
    return from_arrow_schema(pa.schema([f.with_nullable(True) for f in schema]))  # noqa: FBT003 - Arrow's own argument


# ---- csv -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Skipped:
    """What a reader could not make records of, noted while it goes on."""

    rows: int = 0
    bad: list[SetAside] = field(default_factory=list)


def csv_batches(path: str, names: Sequence[str], form: TextFormat, skipped: Skipped) -> Iterator[pa.RecordBatch]:
    """Yield the texts of a csv file; records with too many or too few fields are left out and counted."""

    def skip(_row: object) -> str:
        skipped.rows += 1
        return "skip"

    header = 1 if form.header else 0
    with _opened(path) as raw:
        try:
            reader = pacsv.open_csv(
                raw,
                read_options=pacsv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=[f"{i}" for i in range(len(names))],
                    skip_rows_after_names=header,
                    encoding=form.encoding,
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=form.sep,
                    quote_char=form.quote or False,
                    double_quote=form.escape is None,
                    escape_char=form.escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types={f"{i}": pa.string() for i in range(len(names))},
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[form.null],
                ),
            )
            for batch in reader:
                yield batch.rename_columns(list(names))
        except (pa.ArrowInvalid, UnicodeError) as error:
            if "Empty CSV" in str(error):
                return
            raise _not_encoded(path, form, error) from error


@dataclass(frozen=True, slots=True)
class Located:
    """A record of a csv file with its place: its number among the well-formed ones (None: it is not), line and text."""

    number: int | None
    line: int
    text: str
    width: int  # how many fields it has


def locate_csv(path: str, form: TextFormat, width: int, wanted: Collection[int]) -> Iterator[Located]:
    """Yield the records with some numbers, and all that have not `width` fields."""
    with _lines(path, form) as raw:
        seen: list[str] = []

        def remembered() -> Iterator[str]:
            for line in raw:
                seen.append(line)
                yield line

        number, at, in_header = -1, 1, form.header
        for record in _records(remembered(), form):
            line, text = at, "".join(seen).rstrip("\r\n")
            at += len(seen)
            seen.clear()
            fits = len(record) == width
            if not record or in_header:
                in_header = in_header and not record
                continue
            number += fits
            if not fits or number in wanted:
                yield Located(number if fits else None, line, text, len(record))


# ---- json ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """Some records of a json file, with their lines (None: a document) and their texts."""

    records: list[Record]
    lines: list[int | None]
    texts: Sequence[bytes] | None

    def text(self, at: int) -> object:
        """Return a record as it stands in the file, or as values."""
        return self.records[at] if self.texts is None else self.texts[at].decode(errors="replace").strip()


def json_blocks(path: str, form: TextFormat, *, exact: bool, skipped: Skipped) -> Iterator[JsonBlock]:
    """Yield the records of a json file, numbers as their texts (`exact`) or as numbers."""
    loads = partial(json.loads, parse_int=_Number, parse_float=_Number, parse_constant=_Number) if exact else json.loads
    with _opened(path) as raw:
        stream = io.BufferedReader(raw, BLOCK_BYTES)
        first = 1
        while lines := stream.readlines(BLOCK_BYTES):
            if first == 1 and not form.lines and _is_document(lines):
                yield _document(path, b"".join([*lines, stream.read()]), form, loads)
                return
            yield _block(path, lines, first, loads, skipped)
            first += len(lines)


def _is_document(lines: Sequence[bytes]) -> bool:
    head = next((line.strip().removeprefix(b"\xef\xbb\xbf") for line in lines if line.strip()), b"{}")
    return head[:1] + head[-1:] != b"{}"


def _document(path: str, data: bytes, form: TextFormat, loads: Loads) -> JsonBlock:
    try:
        found = loads(data.decode(form.python_encoding))
    except ValueError as error:
        raise InvalidInputError(f"{path}: it is no json ({error})", source=path) from None
    records = found if isinstance(found, list) else [found]
    bad = next((record for record in records if not isinstance(record, dict)), None)
    if bad is not None:
        raise InvalidInputError(f"{path}: a record is an object, not {json.dumps(bad)[:80]}", source=path)
    return JsonBlock(records, [None] * len(records), None)


def _block(path: str, lines: Sequence[bytes], first: int, loads: Loads, skipped: Skipped) -> JsonBlock:
    if first == 1:
        lines = [lines[0].removeprefix(b"\xef\xbb\xbf"), *lines[1:]]
    full = [(number, line) for number, line in enumerate(lines, first) if not line.isspace()]
    numbers: list[int | None] = [number for number, _ in full]
    texts = [line for _, line in full]
    try:
        records = loads(b"[" + b",".join(texts) + b"]")
        if len(records) == len(texts) and all(type(record) is dict for record in records):
            return JsonBlock(records, numbers, texts)
    except ValueError:
        pass
    records, good = [], []
    for at, text in enumerate(texts):
        try:
            record = loads(text)
            reason = "" if isinstance(record, dict) else "the line is no json object"
        except ValueError as error:
            record, reason = None, f"the line is no json: {error}"
        if reason:
            shown = text.decode(errors="replace").strip()
            skipped.bad.append(SetAside(path, numbers[at], shown, None, None, reason))
            continue
        records.append(record)
        good.append(at)
    return JsonBlock(records, [numbers[at] for at in good], [texts[at] for at in good])


def json_fields(paths: Sequence[str], form: TextFormat) -> tuple[DataField, ...]:
    """Return the columns of json files with the types that the values show."""
    found: dict[str, pa.DataType] = {}
    first: list[str] = []
    for block in chain.from_iterable(json_blocks(path, form, exact=False, skipped=Skipped()) for path in paths):
        first = first or list(next(iter(block.records), {}))
        for name in dict.fromkeys(chain.from_iterable(block.records)):
            kind = _kind_of([record.get(name) for record in block.records])
            found[name] = _common(found.get(name, pa.null()), kind)
    order = [*first, *sorted(set(found) - set(first))]
    return nullable_fields(pa.schema([(name, _settled(found[name])) for name in order]))


def first_keys(path: str, form: TextFormat) -> list[str]:
    """Return the names in the first record of a json file, in its order."""
    blocks = json_blocks(path, form, exact=False, skipped=Skipped())
    return list(next((record for block in blocks for record in block.records), {}))


def _kind_of(values: Sequence[object]) -> pa.DataType:
    try:
        return pa.array(values).type
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return reduce(_common, map(_kind, values), pa.null())


def _kind(value: object) -> pa.DataType:
    match value:
        case None:
            return pa.null()
        case dict():
            return pa.struct([(name, _kind(inner)) for name, inner in value.items()])
        case list():
            return pa.list_(reduce(_common, map(_kind, value), pa.null()))
        case int() if not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            return pa.string()
        case _:
            return pa.scalar(value).type


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the kind of two values of one column; what has nothing in common is text."""
    kinds = pa.types
    if one.equals(other) or kinds.is_null(other):
        return one
    if kinds.is_null(one):
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if kinds.is_struct(one) and kinds.is_struct(other):
        fields = {f.name: f.type for f in one}
        for f in other:
            fields[f.name] = _common(fields.get(f.name, pa.null()), f.type)
        return pa.struct(list(fields.items()))
    if kinds.is_list(one) and kinds.is_list(other):
        return pa.list_(_common(one.value_type, other.value_type))
    return pa.string()


def _settled(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column: text where nothing was seen, or numbers that no column holds."""
    if pa.types.is_struct(kind):
        return pa.struct(sorted((f.name, _settled(f.type)) for f in kind)) if kind.num_fields else pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    return kind if kind in {pa.int64(), pa.float64(), pa.bool_()} else pa.string()


def json_texts(
    path: str, block: JsonBlock, wanted: Mapping[str, pa.DataType]
) -> tuple[JsonBlock, pa.RecordBatch, list[SetAside]]:
    """Return records as columns of texts in the shape of the given types, and those that have another shape."""
    odd: dict[int, SetAside] = {}
    arrays = []
    for name, kind in wanted.items():
        values = [record.get(name) for record in block.records]
        texts, strange = _shaped(values, kind)
        arrays.append(texts)
        for at, shape in strange.items():
            shown = _json(values[at])[:80]
            said = f"the column {name!r} cannot take {shown}: it should be {shape}"
            odd[at] = SetAside(path, block.lines[at], block.text(at), name, shown, said)
    batch = pa.RecordBatch.from_arrays(arrays, names=list(wanted))
    if not odd:
        return block, batch, []
    good = [at for at in range(len(block.records)) if at not in odd]
    left = JsonBlock(
        [block.records[at] for at in good],
        [block.lines[at] for at in good],
        None if block.texts is None else [block.texts[at] for at in good],
    )
    return left, batch.take(pa.array(good, pa.int64())), list(odd.values())


def _shaped(values: list[object], kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Return values as texts, and by their places the shapes that others should have."""
    try:
        return pa.array(values, kind), {}
    except (pa.ArrowException, TypeError, ValueError):
        texts = [_as_text(value, kind) for value in values]
        strange = {at: text.wanted for at, text in enumerate(texts) if isinstance(text, _Odd)}
        return pa.array([None if at in strange else text for at, text in enumerate(texts)], kind), strange


class _Number(str):
    """A number of a json file, as it stands there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Odd:
    """A value that has another shape than its column."""

    wanted: str


def _as_text(value: object, kind: pa.DataType) -> object:
    """Return a value as texts in the shape of a type."""
    match value:
        case None:
            return None
        case dict() if pa.types.is_struct(kind):
            return _first_odd({f.name: _as_text(value.get(f.name), f.type) for f in kind})
        case dict() if pa.types.is_map(kind):
            inside = _first_odd({name: _as_text(inner, kind.item_type) for name, inner in value.items()})
            return list(inside.items()) if isinstance(inside, dict) else inside
        case list() if pa.types.is_list(kind):
            inside = _first_odd({at: _as_text(inner, kind.value_type) for at, inner in enumerate(value)})
            return list(inside.values()) if isinstance(inside, dict) else inside
        case _ if not pa.types.is_string(kind):
            return _Odd("a list" if pa.types.is_list(kind) else "an object")
        case str():
            return value
        case _:
            return _json(value)


def _first_odd(inside: dict[object, object]) -> object:
    return next((inner for inner in inside.values() if isinstance(inner, _Odd)), inside)


def _json(value: object) -> str:
    """Return a value as json, numbers as they stand in the file."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}:{_json(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
