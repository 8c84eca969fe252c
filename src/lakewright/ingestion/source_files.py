"""Files of an ingest: csv and JSON as texts, parquet and ORC with their types.

Every record of a file has a number, counted from zero over the records that could be read. Only if one of them is bad,
the file is read again to find its line and its text.
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

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.ingestion.bad_rows import BadRecord
from lakewright.ingestion.ingest_sources import ARROW, IngestSource, LocalFile, part_of
from lakewright.ingestion.text_values import guess
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.types import DataField

Record: TypeAlias = "dict[str, Any]"
Loads: TypeAlias = Callable[..., Any]

BLOCK_BYTES = 8 << 20
ROWS = 64 << 10  # of parquet at a time
_IPC_MARK = b"ARROW1"  # how an Arrow file begins; a stream does not
_SPARK_COMPRESSIONS = frozenset({"snappy", "deflate", "xz"})  # pyarrow does not decompress files with these endings
# Options of Spark's readers that this process follows as well.
CSV_OPTIONS = frozenset(
    {"sep", "delimiter", "quote", "escape", "encoding", "charset", "nullValue", "multiLine", "header"}
    | {"dateFormat", "timestampFormat", "timestampNTZFormat"}
)
JSON_OPTIONS = frozenset({"multiLine", "encoding", "charset", "dateFormat", "timestampFormat", "timestampNTZFormat"})


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How a text file is laid out: separators, quotes, encoding, header."""

    sep: str = ","
    quote: str = '"'
    escape: str | None = None
    encoding: str = "utf-8"
    null: str = ""
    header: bool = True
    lines: bool = False  # a json file has one record per line; False: its first line decides

    @classmethod
    def of_options(cls, options: Mapping[str, str], *, header: bool) -> TextFormat:
        """Read the options of a reader, which have the names of Spark's."""
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
        """The encoding as Python names it; a byte order mark at the beginning is left out."""
        return "utf-8-sig" if self.encoding.lower().replace("_", "-") in {"utf-8", "utf8"} else self.encoding


def why_spark_is_needed(source: IngestSource, options: Mapping[str, str]) -> str | None:
    """Return why only Spark can read a source; None: this process can read it."""
    if source.format == "frame" or (source.table is None and not source.local):
        return f"{source.name} is not on this machine's disk"
    known = {"csv": CSV_OPTIONS, "json": JSON_OPTIONS}.get(source.format, frozenset())
    unknown = sorted(set(options) - known)
    if unknown and source.table is None:
        return f"{unknown[0]!r} is an option of Spark's reader of {source.format}"
    endings = {f.path: f.path.rsplit(".", 1)[-1].lower() for f in source.local}
    compressed = next((path for path, ending in endings.items() if ending in _SPARK_COMPRESSIONS), None)
    return None if compressed is None else f"{compressed} is compressed in a way that only Spark reads"


def _open_text(path: str) -> pa.NativeFile:
    return pa.input_stream(path, compression="detect")


def text_lines(path: str, text_format: TextFormat) -> io.TextIOWrapper:
    """Open a file as text, whose lines keep their endings."""
    return io.TextIOWrapper(_open_text(path), encoding=text_format.python_encoding, newline="")


# ---- columns ---------------------------------------------------------------------------------------------------------


def parts_of(source: IngestSource, text_format: TextFormat) -> list[tuple[IngestSource, tuple[str, ...]]]:
    """Split a source of csv, parquet or orc files into sources whose files have equal columns; return csv names too."""
    groups: dict[object, list[LocalFile]] = {}
    names: dict[object, tuple[str, ...]] = {}
    for file in source.local:
        header = _header(file.path, text_format) if source.format == "csv" else ()
        key: object = header if source.format == "csv" else arrow_schema(file.path, source.format)
        if source.format == "csv" and not header:
            continue  # an empty file has no rows either
        check_header(header, file.path, text_format)
        groups.setdefault(key, []).append(file)
        names[key] = header
    if not groups:
        raise InvalidInputError(f"the csv source {source.name!r} has no header line: it is empty", source=source.name)
    if len(groups) == 1 and len(source.local) == sum(map(len, groups.values())):
        return [(source, next(iter(names.values())))]
    return [(part_of(source, files), names[key]) for key, files in groups.items()]


def _header(path: str, text_format: TextFormat) -> tuple[str, ...]:
    """Return the names of a csv file's columns: its first record, or c0, c1, ... if the file has no header."""
    try:
        with text_lines(path, text_format) as lines:
            first = next((row for row in _records(lines, text_format) if row), None)
    except UnicodeError as error:
        raise _not_encoded(path, text_format, error) from None
    if first is None:
        return ()
    if not text_format.header:
        return tuple(f"c{i}" for i in range(len(first)))
    return tuple(name if name.strip() else f"_c{i}" for i, name in enumerate(first))


def _records(lines: Iterable[str], text_format: TextFormat) -> Iterator[list[str]]:
    return csv.reader(
        lines,
        delimiter=text_format.sep,
        quotechar=text_format.quote or None,
        escapechar=text_format.escape,
        doublequote=text_format.escape is None,
        quoting=csv.QUOTE_MINIMAL if text_format.quote else csv.QUOTE_NONE,
    )


def _not_encoded(path: str, text_format: TextFormat, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"{path}: the text is not {text_format.encoding} ({error}); say how it is encoded with the reader option "
        "'encoding', such as encoding=latin1 (--source-option encoding=latin1)",
        source=path,
    )


def check_header(names: Sequence[str], path: str, text_format: TextFormat) -> None:
    """Raise InvalidInputError for a header with two columns of one name, or with tabs in its only name."""
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InvalidInputError(
            f"{path}: the header has two columns named {twice!r}; rename one in the file, or load it without its "
            "header line (header=False, --no-header)",
            source=path,
            column=twice,
        )
    if text_format.header and len(names) == 1 and "\t" in names[0]:
        raise InvalidInputError(
            f"{path}: the header has one column, {names[0]!r}, with tabs in its name; if tabs separate the fields, "
            "name them as the separator (reader_options={'sep': '\\t'}, --source-option 'sep=\\t')",
            source=path,
            column=names[0],
        )


def header_warnings(names: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...]:
    """Return warnings about a header that looks like data, or that has a column without a name, or a single column."""
    sep = next((sign for sign in ";|" if len(names) == 1 and sign in names[0]), None)
    if sep is not None and not {"sep", "delimiter"} & set(options):
        remedy = f"name it as the separator (reader_options={{'sep': {sep!r}}}, --source-option 'sep={sep}')"
        return (f"the header has one column, {names[0]!r}; if {sep!r} separates the fields, {remedy}",)
    values = [name for name in names if guess(pa.array([name.strip()])).type.root not in {"VARCHAR", "BOOLEAN"}]
    empty = [name for i, name in enumerate(names) if name == f"_c{i}"]
    if values:
        warning = f"the header looks like data ({values[0]!r} is a value, no name); if it is data"
        return (f"{warning}, say that there is no header",)
    return (f"a column has no name in the header and is called {empty[0]!r}",) if empty else ()


def arrow_schema(path: str, format: str) -> pa.Schema:  # noqa: A002 - what every reader of files calls it
    """Return the columns of a parquet, orc or Arrow file."""
    readers: dict[str, Callable[[str], pa.Schema]] = {
        "parquet": pq.read_schema,
        "orc": lambda place: orc.ORCFile(place).schema,
        ARROW: _ipc_schema,
    }
    try:
        schema = readers[format](path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInputError(f"{path}: it cannot be read as {format} ({error})", source=path) from error
    return schema.remove_metadata()


def _ipc_schema(path: str) -> pa.Schema:
    with pa.OSFile(path) as file:
        return _ipc_reader(file).schema


def ipc_batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an Arrow file, or of an Arrow stream in a file."""
    with pa.OSFile(path) as file:
        reader = _ipc_reader(file)
        if isinstance(reader, pa.RecordBatchFileReader):
            yield from (reader.get_batch(at).select(list(columns)) for at in range(reader.num_record_batches))
        else:
            yield from (batch.select(list(columns)) for batch in reader)


def _ipc_reader(file: pa.NativeFile) -> pa.RecordBatchFileReader | pa.RecordBatchStreamReader:
    is_file = file.read(len(_IPC_MARK)) == _IPC_MARK
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def file_columns(
    schema: pa.Schema, source: str, chosen: Collection[str] | None
) -> tuple[tuple[DataField, ...], frozenset[str]]:
    """Return the columns of a file as nullable columns of a table, and which of them have nulls and no type.

    Those are STRING, as in a csv file without values. Columns that are not `chosen` are left out if no table can have
    them; an error names all others.
    """
    untyped = {f.name for f in schema if pa.types.is_null(f.type)}
    kept = [
        f.with_type(pa.string()) if f.name in untyped else f
        for f in schema
        if chosen is None or f.name in chosen or _has_column_type(f)
    ]
    try:
        return nullable_fields(pa.schema(kept)), frozenset(untyped)
    except (InvalidInputError, UnsupportedError) as error:
        remedy = "; or leave such columns out: name the others (columns, --columns)"
        raise type(error)(f"{source}: {error.message}{remedy}", **{**error.facts, "source": source}) from None


def _has_column_type(one: pa.Field) -> bool:
    try:
        from_arrow_schema(pa.schema([one]))
    except (InvalidInputError, UnsupportedError):
        return False
    return True


def nullable_fields(schema: pa.Schema) -> tuple[DataField, ...]:
    """Return Arrow columns as nullable columns of a table."""
    return from_arrow_schema(pa.schema([f.with_nullable(True) for f in schema]))  # noqa: FBT003 - Arrow's own argument


# ---- csv -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Skipped:
    """What a reader could not read as records and skipped: a count for csv, the bad records for json."""

    rows: int = 0
    bad: list[BadRecord] = field(default_factory=list)


def csv_batches(path: str, names: Sequence[str], text_format: TextFormat, skipped: Skipped) -> Iterator[pa.RecordBatch]:
    """Yield the texts of a csv file; records with too many or too few fields are left out and counted."""

    def skip(_row: object) -> str:
        skipped.rows += 1
        return "skip"

    header = 1 if text_format.header else 0
    with _open_text(path) as raw:
        try:
            reader = pacsv.open_csv(
                raw,
                read_options=pacsv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=[f"{i}" for i in range(len(names))],
                    skip_rows_after_names=header,
                    encoding=text_format.encoding,
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=text_format.sep,
                    quote_char=text_format.quote or False,
                    double_quote=text_format.escape is None,
                    escape_char=text_format.escape or False,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types={f"{i}": pa.string() for i in range(len(names))},
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[text_format.null],
                ),
            )
            for batch in reader:
                yield batch.rename_columns(list(names))
        except (pa.ArrowInvalid, UnicodeError) as error:
            if "Empty CSV" in str(error):
                return
            raise _not_encoded(path, text_format, error) from error


@dataclass(frozen=True, slots=True)
class CsvRecord:
    """A record of a csv file, with the line where it begins and its text."""

    number: int | None  # among the records with the right number of fields; None: it has another number of fields
    line: int
    text: str
    width: int  # how many fields it has


def find_csv_records(path: str, text_format: TextFormat, width: int, numbers: Collection[int]) -> Iterator[CsvRecord]:
    """Yield the records with the given numbers, and all that do not have `width` fields."""
    with text_lines(path, text_format) as raw:
        seen: list[str] = []

        def record_lines() -> Iterator[str]:
            for line in raw:
                seen.append(line)
                yield line

        number, at, in_header = -1, 1, text_format.header
        for record in _records(record_lines(), text_format):
            line, text = at, "".join(seen).rstrip("\r\n")
            at += len(seen)
            seen.clear()
            fits = len(record) == width
            if not record or in_header:
                in_header = in_header and not record
                continue
            number += fits
            if not fits or number in numbers:
                yield CsvRecord(number if fits else None, line, text, len(record))


# ---- json ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """Some records of a json file, with their lines and texts (None: the file is one document over several lines)."""

    records: list[Record]
    lines: list[int | None]
    texts: Sequence[bytes] | None

    def text(self, at: int) -> object:
        """Return the text of a record, or its values where the file is one document."""
        return self.records[at] if self.texts is None else self.texts[at].decode(errors="replace").strip()


def json_blocks(path: str, text_format: TextFormat, *, exact: bool, skipped: Skipped) -> Iterator[JsonBlock]:
    """Yield the records of a json file; with `exact`, numbers are texts with every digit of the file."""
    loads = partial(json.loads, parse_int=_Number, parse_float=_Number, parse_constant=_Number) if exact else json.loads
    with _open_text(path) as raw:
        stream = io.BufferedReader(raw, BLOCK_BYTES)
        first = 1
        while lines := stream.readlines(BLOCK_BYTES):
            if first == 1 and not text_format.lines and _is_document(lines):
                yield _document(path, b"".join([*lines, stream.read()]), text_format, loads)
                return
            yield _block(path, lines, first, loads, skipped)
            first += len(lines)


def _is_document(lines: Sequence[bytes]) -> bool:
    head = next((line.strip().removeprefix(b"\xef\xbb\xbf") for line in lines if line.strip()), b"{}")
    return head[:1] + head[-1:] != b"{}"


def _document(path: str, data: bytes, text_format: TextFormat, loads: Loads) -> JsonBlock:
    try:
        document = loads(data.decode(text_format.python_encoding))
    except ValueError as error:
        raise InvalidInputError(f"{path}: it is no json ({error})", source=path) from None
    records = document if isinstance(document, list) else [document]
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
            skipped.bad.append(BadRecord(path, numbers[at], shown, None, None, reason))
            continue
        records.append(record)
        good.append(at)
    return JsonBlock(records, [numbers[at] for at in good], [texts[at] for at in good])


def json_fields(paths: Sequence[str], text_format: TextFormat) -> tuple[DataField, ...]:
    """Return the columns of json files, with types that hold all their values."""
    types: dict[str, pa.DataType] = {}
    first: list[str] = []
    for block in chain.from_iterable(json_blocks(path, text_format, exact=False, skipped=Skipped()) for path in paths):
        first = first or list(next(iter(block.records), {}))
        for name in dict.fromkeys(chain.from_iterable(block.records)):
            kind = _kind_of([record.get(name) for record in block.records])
            types[name] = _common(types.get(name, pa.null()), kind)
    order = [*first, *sorted(set(types) - set(first))]
    return nullable_fields(pa.schema([(name, _column_type(types[name])) for name in order]))


def first_keys(path: str, text_format: TextFormat) -> list[str]:
    """Return the names in the first record of a json file, in its order."""
    blocks = json_blocks(path, text_format, exact=False, skipped=Skipped())
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
    """Return a type that holds the values of two types; text if they have nothing in common."""
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


def _column_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column for the type of its values: text if all are null, or too large for a number type."""
    if pa.types.is_struct(kind):
        return pa.struct(sorted((f.name, _column_type(f.type)) for f in kind)) if kind.num_fields else pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_column_type(kind.value_type))
    return kind if kind in {pa.int64(), pa.float64(), pa.bool_()} else pa.string()


def json_texts(
    path: str, block: JsonBlock, shapes: Mapping[str, pa.DataType]
) -> tuple[JsonBlock, pa.RecordBatch, list[BadRecord]]:
    """Return the records that have the given shapes, these as columns of texts, and the records of other shapes."""
    bad: dict[int, BadRecord] = {}
    arrays = []
    for name, kind in shapes.items():
        values = [record.get(name) for record in block.records]
        texts, expected = _to_texts(values, kind)
        arrays.append(texts)
        for at, shape in expected.items():
            shown = _json(values[at])[:80]
            reason = f"the column {name!r} cannot take {shown}: it should be {shape}"
            bad[at] = BadRecord(path, block.lines[at], block.text(at), name, shown, reason)
    batch = pa.RecordBatch.from_arrays(arrays, names=list(shapes))
    if not bad:
        return block, batch, []
    good = [at for at in range(len(block.records)) if at not in bad]
    fitting = JsonBlock(
        [block.records[at] for at in good],
        [block.lines[at] for at in good],
        None if block.texts is None else [block.texts[at] for at in good],
    )
    return fitting, batch.take(pa.array(good, pa.int64())), list(bad.values())


def _to_texts(values: list[object], kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Return values as texts; values of another shape are null, and the shape they should have is returned."""
    try:
        return pa.array(values, kind), {}
    except (pa.ArrowException, TypeError, ValueError):
        texts = [_as_text(value, kind) for value in values]
        expected = {at: text.expected for at, text in enumerate(texts) if isinstance(text, _WrongShape)}
        return pa.array([None if at in expected else text for at, text in enumerate(texts)], kind), expected


class _Number(str):
    """The text of a number in a json file."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _WrongShape:
    """Stands in place of a value whose shape differs from that of its column."""

    expected: str  # the shape of the column, in words


def _as_text(value: object, kind: pa.DataType) -> object:
    """Return a value as texts in the shape of a type."""
    match value:
        case None:
            return None
        case dict() if pa.types.is_struct(kind):
            return _first_wrong_shape({f.name: _as_text(value.get(f.name), f.type) for f in kind})
        case dict() if pa.types.is_map(kind):
            inside = _first_wrong_shape({name: _as_text(inner, kind.item_type) for name, inner in value.items()})
            return list(inside.items()) if isinstance(inside, dict) else inside
        case list() if pa.types.is_list(kind):
            inside = _first_wrong_shape({at: _as_text(inner, kind.value_type) for at, inner in enumerate(value)})
            return list(inside.values()) if isinstance(inside, dict) else inside
        case _ if not pa.types.is_string(kind):
            return _WrongShape("a list" if pa.types.is_list(kind) else "an object")
        case str():
            return value
        case _:
            return _json(value)


def _first_wrong_shape(inside: dict[object, object]) -> object:
    return next((inner for inner in inside.values() if isinstance(inner, _WrongShape)), inside)


def _json(value: object) -> str:
    """Return a value as json, numbers with every digit of the file."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}:{_json(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
