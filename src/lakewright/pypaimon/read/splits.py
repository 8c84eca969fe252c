"""Splits and data files as pypaimon shows them: lakewright's facts in, the attributes that scripts read out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakewright.metadata.store import TableStore
from lakewright.pypaimon.rows import GenericRow
from lakewright.pypaimon.values.ranges import Range
from lakewright.pypaimon.values.times import Timestamp
from lakewright.read import builder as core
from lakewright.read.scan import keys_are_once
from lakewright.read.splits import split as core_split
from lakewright.read.splits.split import DeletionFile
from lakewright.spec.datafile import EMPTY_ROW, DataFile
from lakewright.spec.datafile import SimpleStats as Stats
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.types import DataField
from lakewright.spec.values import to_python


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Bounds and null counts of some columns."""

    min_values: GenericRow
    max_values: GenericRow
    null_counts: list[int | None]

    @classmethod
    def empty_stats(cls) -> SimpleStats:
        """Return the statistics of no columns."""
        return cls(GenericRow((), ()), GenericRow((), ()), [])


class DataFileMeta:
    """One data file: the facts that a manifest records, and the path."""

    def __init__(self, file: DataFile, path: str, store: TableStore) -> None:
        self.file = file
        self.file_path = path
        self._store = store

    def __getattr__(self, name: str) -> object:
        """Return a fact that has the same name and form in both libraries, such as `file_name` or `row_count`."""
        if name in {field.name for field in dataclasses.fields(DataFile)}:
            return getattr(self.file, name)
        raise AttributeError(f"a data file has no {name!r}")

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    @property
    def min_key(self) -> GenericRow:
        """The smallest key; an empty row in tables without a primary key."""
        return self._key(self.file.min_key)

    @property
    def max_key(self) -> GenericRow:
        """The largest key; an empty row in tables without a primary key."""
        return self._key(self.file.max_key)

    @property
    def key_stats(self) -> SimpleStats:
        """The statistics of the key columns."""
        return _stats(self.file.key_stats, self._store.schema.trimmed_primary_key_fields)

    @property
    def value_stats(self) -> SimpleStats:
        """The statistics of the columns, or of those that `value_stats_cols` names."""
        fields = self._store.schemas.get(self.file.schema_id).fields
        named = self.file.value_stats_cols
        known = {field.name: field for field in fields}
        return _stats(self.file.value_stats, fields if named is None else [known[name] for name in named])

    @property
    def extra_files(self) -> list[str]:
        """The names of files that belong to this one."""
        return list(self.file.extra_files)

    @property
    def creation_time(self) -> Timestamp | None:
        """When the file was made."""
        return None if self.file.creation_time is None else Timestamp(self.file.creation_time)

    @property
    def embedded_index(self) -> bytes | None:
        """The index of the file that the manifest holds."""
        return self.file.embedded_file_index

    @property
    def value_stats_cols(self) -> list[str] | None:
        """The columns with statistics; None: all."""
        return None if self.file.value_stats_cols is None else list(self.file.value_stats_cols)

    @property
    def write_cols(self) -> list[str] | None:
        """The columns that the file has; None: all."""
        return None if self.file.write_cols is None else list(self.file.write_cols)

    def get_creation_time(self) -> Timestamp | None:
        """Return when the file was made."""
        return self.creation_time

    def creation_time_epoch_millis(self) -> int | None:
        """Return when the file was made, in milliseconds."""
        return self.file.creation_time

    def creation_time_as_datetime(self) -> datetime | None:
        """Return when the file was made, as a time without a zone."""
        made = self.creation_time
        return None if made is None else made.to_local_date_time()

    def physical_path(self) -> str:
        """Return where the file lies."""
        return self.file.external_path or self.file_path

    def row_id_range(self) -> Range | None:
        """Return the row ids of the file; None where the table does not track rows."""
        first = self.file.first_row_id
        return None if first is None else Range(first, first + self.file.row_count - 1)

    @staticmethod
    def is_blob_file(file_name: str) -> bool:
        """Say whether a file holds the large values of one column."""
        return file_name.endswith(".blob")

    def _key(self, key: bytes) -> GenericRow:
        fields = self._store.schema.trimmed_primary_key_fields
        return GenericRow(()) if key == EMPTY_ROW else _row(key, fields)


class DataSplit:
    """A piece of a plan that one worker reads by itself."""

    def __init__(self, split: core_split.DataSplit, store: TableStore) -> None:
        self.split = split
        self._store = store

    @property
    def files(self) -> list[DataFileMeta]:
        """The data files."""
        pairs = zip(self.split.files, self.split.file_paths, strict=True)
        return [DataFileMeta(file, path, self._store) for file, path in pairs]

    @property
    def file_paths(self) -> list[str]:
        """Where the data files lie."""
        return list(self.split.file_paths)

    @property
    def partition(self) -> GenericRow:
        """The values of the partition columns."""
        return GenericRow(self.split.partition, self._store.schema.partition_fields)

    @property
    def bucket(self) -> int:
        """The bucket of the files."""
        return self.split.bucket

    @property
    def total_buckets(self) -> int:
        """How many buckets the partition had when the files were written."""
        return self.split.total_buckets

    @property
    def bucket_path(self) -> str:
        """The directory of the bucket."""
        return self.split.bucket_path

    @property
    def snapshot_id(self) -> int:
        """The snapshot of the plan."""
        return self.split.snapshot_id

    @property
    def row_count(self) -> int:
        """How many rows the files hold, deleted ones included."""
        return self.split.row_count

    @property
    def file_size(self) -> int:
        """How many bytes the files have."""
        return self.split.file_size

    @property
    def raw_convertible(self) -> bool:
        """Whether the files can be read one by one: a lone file, or files of one level that is not the first."""
        one = self.split
        levels = {file.level for file in one.files}
        alone = len(one.files) == 1 or keys_are_once(self._store) or (len(levels) == 1 and 0 not in levels)
        return one.raw_convertible and (alone or not self._store.schema.primary_keys)

    @property
    def is_streaming(self) -> bool:
        """Whether the rows are events, with their kinds."""
        return self.split.streaming

    @property
    def data_deletion_files(self) -> list[DeletionFile | None] | None:
        """The deletion vector of each file; None where no file has one."""
        return list(self.split.deletion_files) or None

    def merged_row_count(self) -> int | None:
        """Return how many rows a read gives; None where that is not known without reading."""
        return self.split.merged_row_count()

    def filter_file(self, func: Callable[[DataFileMeta], bool]) -> DataSplit | None:
        """Return the split with only the files for which a function says True; None where it says so for none."""
        kept = [at for at, file in enumerate(self.files) if func(file)]
        if not kept:
            return None
        one = self.split
        return DataSplit(
            dataclasses.replace(
                one,
                files=tuple(one.files[at] for at in kept),
                file_paths=tuple(one.file_paths[at] for at in kept),
                deletion_files=tuple(one.deletion_files[at] for at in kept) if one.deletion_files else (),
                row_ranges=tuple(one.row_ranges[at] for at in kept) if one.row_ranges else (),
            ),
            self._store,
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The splits of a read, at one snapshot."""

    _splits: list[DataSplit]
    snapshot_id: int | None = None

    def splits(self) -> list[DataSplit]:
        """Return the splits in reading order."""
        return list(self._splits)


def shown_plan(plan: core.Plan, store: TableStore) -> Plan:
    """Return a plan of lakewright in pypaimon's form."""
    return Plan([DataSplit(split, store) for split in plan.splits()], plan.snapshot_id)


def plain_splits(splits: Sequence[object] | None) -> list[object] | None:
    """Return splits as lakewright's readers take them."""
    return None if splits is None else [one.split if isinstance(one, DataSplit) else one for one in splits]


def _row(data: bytes, fields: Sequence[DataField]) -> GenericRow:
    values = decode_row(data, [field.type for field in fields])
    pairs = zip(values, fields, strict=True)
    return GenericRow([None if value is None else to_python(value, field.type) for value, field in pairs], fields)


def _stats(stats: Stats, fields: Sequence[DataField]) -> SimpleStats:
    if stats.min_values == EMPTY_ROW:
        return SimpleStats(GenericRow(()), GenericRow(()), list(stats.null_counts))
    return SimpleStats(_row(stats.min_values, fields), _row(stats.max_values, fields), list(stats.null_counts))
