"""The embedded engine: local files and tables, read a part at a time and written by this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakewright.calls import ProgressCallback, write_table
from lakewright.catalog.filesystem import CatalogFactory, FileSystemCatalog
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.job import RunTasks
from lakewright.errors import UnsupportedError
from lakewright.ingestion import files
from lakewright.ingestion.files import JsonBlock, Skipped, TextFormat
from lakewright.ingestion.plan import Call, IngestResult, Target, find_target, make_call
from lakewright.ingestion.rows import BadRow, BadRows, Conversion, SetAside
from lakewright.ingestion.run import Opened, Written, run
from lakewright.ingestion.sources import Given, LocalFile, Source, find_sources
from lakewright.ingestion.text import STRING, Guess, TextForms, as_text, guess
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.types import DataField, DataType
from lakewright.table.table import FileStoreTable

_WAY = "by this process"
LOCAL_BYTES_MAX = 64 << 20  # of sources that are ingested without Spark unless the caller says otherwise


def ingest(  # noqa: PLR0913 - each argument is one choice of the caller
    source: Given | Sequence[Given],
    table: FileStoreTable | str,
    *,
    mode: str = "append",
    catalog: FileSystemCatalog | Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    reader_options: Mapping[str, str] | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    renames: Mapping[str, str] | None = None,
    ignore_extra: bool = False,
    partitions: Mapping[str, str] | None = None,
    create: bool = False,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    schema_mode: str | None = None,
    bad_rows: str | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestResult:
    r"""Load local files or tables, fit them to a table, write them in this process and commit once.

    `source` is a path, a pattern, a directory, a table (its path, or `db.t` of the catalog), or several of these;
    `lakewright.spark.ingest` takes the same arguments, which the page on ingest explains.

    >>> import tempfile, pathlib, lakewright as lw
    >>> place = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = place.write_text("id,code,price\n1,007,9.50\n2,008,3.00\n")
    >>> catalog = lw.CatalogFactory.create({"warehouse": str(place.parent)})
    >>> _ = lw.ingest(place, "d.t", catalog=catalog, create=True, primary_key=["id"])
    >>> [str(field.type) for field in catalog.get_table("d.t").fields]
    ['BIGINT NOT NULL', 'STRING', 'DECIMAL(18, 2)']
    """
    call = make_call(
        mode=mode,
        reader_options=reader_options,
        header=header,
        columns=columns,
        renames=renames,
        ignore_extra=ignore_extra,
        partitions=partitions,
        create=create,
        primary_key=primary_key,
        partition_by=partition_by,
        types=types,
        options=options,
        schema_mode=schema_mode,
        bad_rows=bad_rows,
        job_id=job_id,
        dry_run=dry_run,
        say=say,
    )
    where = CatalogFactory.create(catalog) if isinstance(catalog, Mapping) else catalog
    find = partial(find_sources, source, format=format, catalog=where)
    return run(LocalEngine(progress), find_target(table, where, create=create), call, find)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Reads and writes in this process."""

    progress: bool | ProgressCallback | None = None
    compactions: RunTasks | None = None

    def open(self, source: Source, call: Call) -> Sequence[Opened]:
        """Open a source; one whose files differ in their columns becomes several."""
        options = {**source.reader_options, **call.reader_options}
        reason = files.why_not_here(source, options)
        if reason is not None:
            raise UnsupportedError(f"{reason}: ingest it with Spark (--engine spark, lakewright.spark.ingest)")
        form = TextFormat.of_options(options, header=call.header)
        forms = TextForms.of_options(options, binary=source.format != "json")
        if source.table is not None:
            return [LocalOpened(source, tuple(source.table.fields), form, forms)]
        directories = [DataField(0, name, STRING) for name in source.partition_columns]
        if source.format == "json":
            fields = (*files.json_fields([f.path for f in source.local], form), *directories)
            return [LocalOpened(source, fields, form, forms, frozenset(f.name for f in fields))]
        out = []
        for part, names in files.parts_of(source, form):
            if source.format == "csv":
                found = (*(DataField(0, name, STRING) for name in names), *directories)
                text = frozenset(f.name for f in found)
                odd = files.header_warnings(names) if call.header else ()
                out.append(LocalOpened(part, found, form, forms, text, odd))
                continue
            schema = files.arrow_schema(part.local[0].path, part.format)
            found = (*(f for f in files.nullable_fields(schema) if f.name not in part.partition_columns), *directories)
            out.append(LocalOpened(part, found, form, forms, frozenset(part.partition_columns)))
        return out

    def way(self, _target: Target, _parts: Sequence[tuple[Opened, Conversion]], _call: Call) -> str:
        """Say how the rows would be written."""
        return _WAY

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[Opened, Conversion]], call: Call, bad: BadRows
    ) -> Written:
        """Write the rows of all sources and commit them once."""
        whole = pa.unify_schemas([conversion.schema for _, conversion in parts])
        keys = Keys(table.primary_keys)
        rows = chain.from_iterable(_rows(opened, conversion, bad) for opened, conversion in parts)
        noted = (batch for part in rows for batch in keys.note(_filled(part, whole)).to_batches())
        reader = pa.RecordBatchReader.from_batches(whole, noted)
        done = write_table(
            reader, table, call.mode, partitions=call.replaced, job_id=call.job_id, progress=self.progress
        )
        return Written(WriteResult(**asdict(done), tasks=1, way=_WAY), keys.duplicates())


def _filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of all sources, null where their own lacks one."""
    there = set(rows.column_names)
    columns = [rows.column(f.name) if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


class Keys:
    """The keys of the rows that went by, to count those that came more than once."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._seen: list[pa.Table] = []

    def note(self, rows: pa.Table) -> pa.Table:
        """Note the keys of some rows, and return these."""
        if self._names and set(self._names) <= set(rows.column_names):
            self._seen.append(rows.select(self._names))
        return rows

    def duplicates(self) -> int | None:
        """Return how many rows had a key that an earlier row had; None: the table has no key."""
        if not self._names:
            return None
        if not self._seen:
            return 0
        keys = pa.concat_tables(self._seen)
        distinct = keys.group_by(self._names).aggregate([])
        return int(keys.num_rows - distinct.num_rows)


# ---- one source ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalOpened:
    """Local files with the same columns, or a table."""

    source: Source
    fields: tuple[DataField, ...]
    form: TextFormat
    forms: TextForms
    text: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    def guess(self, names: Collection[str]) -> Mapping[str, DataType]:
        """Return the types that the values of some columns show."""
        types = {f.name: f.type for f in self.fields if f.name in names}
        wanted = [n for n in types if n not in self.source.partition_columns] if self.source.format == "csv" else []
        found = dict.fromkeys(wanted, Guess())
        for batch in self._texts() if wanted else ():
            found = {name: found[name] + guess(batch.column(name)) for name in wanted}
        return types | {name: seen.type for name, seen in found.items()}

    def _texts(self) -> Iterator[pa.RecordBatch]:
        for file in self.source.local:
            yield from files.csv_batches(file.path, self.csv_names, self.form, Skipped())

    @property
    def csv_names(self) -> list[str]:
        """The columns of the files themselves."""
        return [f.name for f in self.fields if f.name not in self.source.partition_columns]

    def named(self, names: Sequence[str]) -> LocalOpened:
        """Return the source with other names for its columns."""
        directories = [f for f in self.fields if f.name in self.source.partition_columns]
        fields = (*(DataField(0, name, STRING) for name in names), *directories)
        return replace(self, fields=fields, text=frozenset(f.name for f in fields))


def _rows(opened: Opened, conversion: Conversion, bad: BadRows) -> Iterator[pa.Table]:
    """Yield the rows of a source as the table takes them; bad ones are set aside, file by file."""
    if not isinstance(opened, LocalOpened):
        return
    if opened.source.table is not None:
        read = opened.source.table.new_read_builder().with_projection([name for name, _ in conversion.pairs])
        for batch in read.new_read().to_arrow_batch_reader():
            rows, misfits = conversion.rows(batch)
            bad.take([_set_aside(opened.source.name, one, batch.slice(one.row, 1)) for one in misfits])
            yield rows
        return
    reader = {"csv": _csv_rows, "json": _json_rows}.get(opened.source.format, _typed_rows)
    for file in opened.source.local:
        yield from reader(file, opened, conversion, bad)


def _set_aside(name: str, one: BadRow, row: pa.RecordBatch) -> SetAside:
    return SetAside(name, None, row.to_pylist()[0], one.column, one.value, one.reason)


def _csv_rows(file: LocalFile, opened: LocalOpened, conversion: Conversion, bad: BadRows) -> Iterator[pa.Table]:
    names = opened.csv_names
    skipped = Skipped()
    misfits: dict[int, BadRow] = {}
    first = 0
    for batch in files.csv_batches(file.path, names, opened.form, skipped):
        rows, found = conversion.rows(_with_values(batch, file))
        misfits |= {first + one.row: one for one in found}
        first += batch.num_rows
        if bad.stops and (misfits or skipped.rows):
            break
        yield rows
    if misfits or skipped.rows:
        bad.take(_located(file, opened, misfits))


def _located(file: LocalFile, opened: LocalOpened, misfits: Mapping[int, BadRow]) -> list[SetAside]:
    """Return the bad rows of a csv file with their lines."""
    width = len(opened.csv_names)
    out = []
    for found in files.locate_csv(file.path, opened.form, width, misfits.keys()):
        if found.number is None:
            said = f"the line has {found.width} fields, not {width}"
            out.append(SetAside(file.path, found.line, found.text, None, None, said))
        else:
            one = misfits[found.number]
            out.append(SetAside(file.path, found.line, found.text, one.column, one.value, one.reason))
    return out


def _json_rows(file: LocalFile, opened: LocalOpened, conversion: Conversion, bad: BadRows) -> Iterator[pa.Table]:
    known = {f.name: f.type for f in conversion.fields}
    wanted = {
        name: to_arrow_type(as_text(known[to])) if to in known else pa.string()
        for name, to in conversion.pairs
        if name not in dict(file.values)
    }
    skipped = Skipped()
    for found in files.json_blocks(file.path, opened.form, exact=True, skipped=skipped):
        bad.take(skipped.bad)
        skipped.bad.clear()
        block, batch, odd = files.json_texts(file.path, found, wanted)
        bad.take(odd)
        rows, misfits = conversion.rows(_with_values(batch, file))
        bad.take([_json_set_aside(file.path, block, one) for one in misfits])
        yield rows
    bad.take(skipped.bad)


def _json_set_aside(path: str, block: JsonBlock, one: BadRow) -> SetAside:
    return SetAside(path, block.lines[one.row], block.text(one.row), one.column, one.value, one.reason)


def _typed_rows(file: LocalFile, opened: LocalOpened, conversion: Conversion, bad: BadRows) -> Iterator[pa.Table]:
    columns = [name for name, _ in conversion.pairs if name not in dict(file.values)]
    first = 0
    for batch in _typed_batches(file.path, opened.source.format, columns):
        rows, misfits = conversion.rows(_with_values(batch, file))
        bad.take([_set_aside(f"{file.path}, row {first + one.row}", one, batch.slice(one.row, 1)) for one in misfits])
        first += batch.num_rows
        yield rows


def _typed_batches(path: str, format: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: A002
    if format == "parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(files.ROWS, columns=list(columns))
        return
    stripes = orc.ORCFile(path)
    for number in range(stripes.nstripes):
        yield stripes.read_stripe(number, columns=list(columns))


def _with_values(batch: pa.RecordBatch, file: LocalFile) -> pa.RecordBatch:
    """Return the batch with the values that its directories name."""
    for name, text in file.values:
        batch = batch.append_column(name, pa.array([text] * batch.num_rows, pa.string()))
    return batch
