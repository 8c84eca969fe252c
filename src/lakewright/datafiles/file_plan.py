"""The options of a table in, the plan of its data files out: format, sizes, names and which statistics they record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakewright.formats.base import WriteOptions
from lakewright.spec.datafile import APPEND, SimpleStats
from lakewright.spec.keyed_rows import SEQUENCE_NUMBER, stored_fields
from lakewright.spec.options import ChangelogProducer, CoreOptions
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.stats import COUNTS, FULL, NONE, ColumnStats, StatsMode, to_simple_stats, truncate
from lakewright.spec.types import DataField

_ROWS_MAX = (1 << 63) - 1
_EXTENSIONS = {"zstd": "zst", "zstandard": "zst", "gzip": "gz", "bzip2": "bz2"}
_KEY_STATS = StatsMode("truncate", 128)  # of key columns; no option changes it


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What all data files of one writer have in common: format, columns, sizes, names, statistics."""

    fields: tuple[DataField, ...]  # of the files, in file order
    file_format: str
    options: WriteOptions
    schema_id: int
    file_bytes_max: int
    file_rows_max: int
    dense_stats: bool
    numbered_at_commit: bool = False  # row tracking: the committer assigns the sequence numbers
    write_cols: tuple[str, ...] | None = None  # the columns of `fields` where these are not all of the table's
    prefix: str = "data-"
    suffix: str = ""
    level: int = 0
    source: int = APPEND
    columns: KeyedColumns | None = None  # of a primary-key table
    later: tuple[tuple[str, WriteOptions], ...] = ()  # formats that a compaction may give the rows of these files

    @classmethod
    def of_schema(cls, schema: TableSchema, write_cols: tuple[str, ...] | None = None) -> FilePlan:
        """Return the plan of an append table's files; `write_cols` names the columns of files that do not have all."""
        fields = schema.fields if write_cols is None else tuple(f for f in schema.fields if f.name in write_cols)
        plan = cls._of_options(schema, tuple(fields), level=0)
        return replace(plan, write_cols=None if write_cols is None else tuple(f.name for f in fields))

    @classmethod
    def moved(cls, schema: TableSchema, ids: Sequence[DataField] = (), *, source: int) -> FilePlan:
        """Return the plan of files for rows of an append table that are copied from other files.

        `ids` are the system columns that the rows keep; without them row tracking would give the rows new numbers.
        """
        plan = cls._of_options(schema, (*schema.fields, *ids), level=0)
        return replace(plan, write_cols=tuple(f.name for f in plan.fields) if ids else None, source=source)

    @classmethod
    def keyed(cls, schema: TableSchema, *, level: int, source: int = APPEND, changelog: bool = False) -> FilePlan:
        """Return the plan of a primary-key table's data files of one level, or of its changelog files.

        Files are thin by default: they have no copies of the key columns, because every reader takes the key from the
        columns of the table.
        """
        options = schema.core_options
        fields = stored_fields(schema, thin=options.get(CoreOptions.DATA_FILE_THIN_MODE, default=True))
        plan = cls._of_options(schema, fields, level=level, changelog=changelog)
        modes = plan.options.stats[-len(schema.fields) :]
        columns = KeyedColumns(schema.fields, schema.trimmed_primary_key_fields, modes)
        return replace(
            plan,
            options=replace(plan.options, stats=tuple(columns.mode_of(field) for field in plan.fields)),
            file_rows_max=plan.file_rows_max if source == APPEND else _ROWS_MAX,
            source=source,
            level=level,
            columns=columns,
            later=() if level or changelog else cls._later_formats(schema, plan),
        )

    @classmethod
    def _of_options(
        cls, schema: TableSchema, fields: tuple[DataField, ...], *, level: int, changelog: bool = False
    ) -> FilePlan:
        options = schema.core_options
        file_format = options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).get(level) or options.file_format()
        prefix = options.get(CoreOptions.DATA_FILE_PREFIX)
        write = WriteOptions.from_core_options(options, fields, level=level)
        if changelog:
            file_format = options.get(CoreOptions.CHANGELOG_FILE_FORMAT) or file_format
            prefix = options.get(CoreOptions.CHANGELOG_FILE_PREFIX)
            write = replace(write, compression=options.get(CoreOptions.CHANGELOG_FILE_COMPRESSION) or write.compression)
        with_compression = options.get(CoreOptions.FILE_SUFFIX_INCLUDE_COMPRESSION)
        return cls(
            fields=fields,
            file_format=file_format,
            options=write,
            schema_id=schema.id,
            file_bytes_max=options.target_file_size(has_primary_key=bool(schema.primary_keys)),
            file_rows_max=max(1, options.get(CoreOptions.TARGET_FILE_ROW_NUM)),
            dense_stats=options.get(CoreOptions.METADATA_STATS_DENSE_STORE),
            numbered_at_commit=options.row_tracking_enabled(),
            prefix=prefix,
            suffix=_suffix(file_format, write.compression, with_compression=with_compression),
        )

    @classmethod
    def _later_formats(cls, schema: TableSchema, plan: FilePlan) -> tuple[tuple[str, WriteOptions], ...]:
        """Return the other formats, with their options, that a compaction writes rows of level 0 in."""
        options = schema.core_options
        levels = range(1, options.num_levels())
        plans = [cls._of_options(schema, plan.fields, level=level) for level in levels]
        if options.get(CoreOptions.CHANGELOG_PRODUCER) is not ChangelogProducer.NONE:
            plans += [cls._of_options(schema, plan.fields, level=level, changelog=True) for level in (0, *levels)]
        found = {(other.file_format, other.options.compression): other.options for other in plans}
        found.pop((plan.file_format, plan.options.compression), None)
        return tuple((file_format, write) for (file_format, _), write in found.items())

    def file_name(self, stem: str) -> str:
        """Return the name of a file from a stem that no other file has."""
        return f"{self.prefix}{stem}{self.suffix}"


def _suffix(file_format: str, compression: str, *, with_compression: bool) -> str:
    if not with_compression or compression in {"none", "null", "uncompressed"}:
        return f".{file_format}"
    return f".{_EXTENSIONS.get(compression, compression)}.{file_format}"


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """The columns of a primary-key table, and the statistics that its data files record of them."""

    fields: tuple[DataField, ...]
    key: tuple[DataField, ...]
    modes: tuple[StatsMode, ...]  # of the value statistics, one per field

    def mode_of(self, stored: DataField) -> StatsMode:
        """Return which statistics the encoder collects of a column of the file.

        The bounds of key columns are recorded twice, truncated to different lengths, so they are collected in full.
        """
        if stored.name == SEQUENCE_NUMBER.name or stored in self.key:
            return FULL
        return self.modes[self.fields.index(stored)] if stored in self.fields else NONE

    def key_stats(self, stats: Sequence[ColumnStats | None]) -> SimpleStats:
        """Return the statistics of the key columns, from those of all columns of the table."""
        of_key = [stats[self.fields.index(field)] for field in self.key]
        return to_simple_stats([_reduced(column, _KEY_STATS) for column in of_key], self.key, dense=False)[0]

    def value_stats(
        self, stats: Sequence[ColumnStats | None], *, dense: bool
    ) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Return the statistics of the columns of the table."""
        reduced = [_reduced(column, mode) for column, mode in zip(stats, self.modes, strict=True)]
        return to_simple_stats(reduced, self.fields, dense=dense)


def _reduced(stats: ColumnStats | None, mode: StatsMode) -> ColumnStats | None:
    """Return the part of the statistics that a mode includes."""
    if stats is None or mode == NONE:
        return None
    if mode == COUNTS:
        return ColumnStats(None, None, stats.null_count)
    return truncate(stats, mode.length) if mode.kind == "truncate" else stats
