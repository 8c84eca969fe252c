"""Every public callable, every argument, many wrong values: an error of our tree or an answer, and a table left whole.

The callables are found by introspection, so a new one is covered as soon as it is public. It fails here until
`RECEIVERS` has an object to call it on and `ARGUMENTS` a valid value for each argument that it needs.
"""

from __future__ import annotations

import inspect
import io
import os
import shutil
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from types import FrameType, GeneratorType
from typing import NoReturn, get_origin

import pandas as pd
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import FileStoreTable, LakewrightError
from lakewright.commit.job_ids import JobRun
from lakewright.read.data_split import DataSplit
from lakewright.spec.option_values import ConfigOption
from lakewright.spec.schema import Position
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import CoreOptions
from support.api_page import BY_TOPIC
from support.effort import thinned

_SECONDS_MAX = 30
_DIRECTORY = (-1, -1)
_FIELDS = pa.schema({"id": pa.int64(), "day": pa.string(), "n": pa.int64()})
_ROWS = {"id": [1, 2, 3], "day": ["a", "a", "b"], "n": [1, 2, 3]}
_KINDS: dict[str, dict[str, object]] = {
    "keyed": {"partition_keys": ["day"], "primary_keys": ["id", "day"], "options": {"bucket": 2}},
    "tracked": {"options": {"row-tracking.enabled": True, "data-evolution.enabled": True}},
    "plain": {"partition_keys": ["day"], "options": {"deletion-vectors.enabled": True, "row-tracking.enabled": True}},
    "postponed": {"primary_keys": ["id"], "options": {"bucket": -2}},
}


@dataclass(frozen=True)
class Lake:
    """A warehouse with one table of each kind, and what is needed to call its verbs."""

    root: Path

    @cached_property
    def catalog(self) -> lw.Catalog:
        return lw.CatalogFactory.create({"warehouse": str(self.root)})

    def table(self, kind: str = "keyed") -> FileStoreTable:
        return self.catalog.get_table(f"d.{kind}")

    def rows(self) -> pa.Table:
        return pa.table(_ROWS, schema=_FIELDS)

    def source(self) -> Path:
        path = self.root.parent / "rows.csv"
        path.write_text("id,day,n\n4,a,4\n")
        return path

    def messages(self, kind: str = "plain") -> list[lw.CommitMessage]:
        with self.table(kind).new_batch_write_builder().new_write() as write:
            return write.write_arrow(self.rows()).prepare_commit()

    def splits(self) -> list[DataSplit]:
        return self.table().new_read_builder().new_scan().plan().splits()

    def snapshot(self) -> Snapshot:
        found = self.table().snapshot()
        assert found is not None
        return found


def _make(root: Path) -> None:
    lake = Lake(root)
    lake.catalog.create_database("d")
    for name, arguments in _KINDS.items():
        lake.catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(_FIELDS, **arguments))  # type: ignore[arg-type]
        for _ in range(2):
            lw.write_table(lake.rows(), lake.table(name))
        lake.table(name).create_tag("v1")
        lake.table(name).create_branch("dev", "v1")


class Workplace:
    """A copy of a warehouse that all calls share; what a call changed is put back, file by file."""

    def __init__(self, pristine: Path, root: Path) -> None:
        self.pristine, self.lake = pristine, Lake(root)
        shutil.copytree(pristine, root)
        self.whole = self.files()

    def files(self) -> dict[str, tuple[int, int]]:
        """Return the size and time of every file, and every directory, by its path."""
        found: dict[str, tuple[int, int]] = {}
        directories = [str(self.lake.root)]
        for directory in directories:
            found[directory] = _DIRECTORY
            for entry in os.scandir(directory):
                if entry.is_dir():
                    directories.append(entry.path)
                else:
                    facts = entry.stat()
                    found[entry.path] = (facts.st_size, facts.st_mtime_ns)
        return found

    def restore(self) -> dict[str, tuple[int, int]]:
        """Remove what is new, copy what is gone or changed, and return the files as they were found."""
        now = self.files()
        if now == self.whole:
            return now
        for path in sorted(now.keys() - self.whole.keys(), reverse=True):
            (Path.rmdir if now[path] == _DIRECTORY else Path.unlink)(Path(path))
        for path in sorted(path for path, facts in self.whole.items() if now.get(path) != facts):
            source = self.pristine / Path(path).relative_to(self.lake.root)
            if source.is_dir():
                Path(path).mkdir()
            else:
                shutil.copy2(source, path)
        return now


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    root = tmp_path_factory.mktemp("wrong-inputs")
    _make(root / "pristine")
    return Workplace(root / "pristine", root / "lake")


# What is called: public classes and functions, each with valid arguments.

INT = lw.AtomicType("INT")
PREDICATE = lw.PredicateBuilder([lw.DataField(0, "id", INT)]).equal("id", 1)

RECEIVERS: Mapping[str, tuple[Callable[[Lake], object], ...]] = {
    "ArrayType": (lambda _: lw.ArrayType(True, INT),),  # noqa: FBT003
    "AtomicType": (lambda _: INT,),
    "AuditLog": (lambda lake: lake.catalog.get_table("d.keyed$audit_log"),),
    "Catalog": (),  # the catalogs themselves are tested
    "BatchTableCommit": (lambda lake: lake.table("plain").new_batch_write_builder().new_commit(),),
    "BatchTableUpdate": (lambda lake: lake.table("tracked").new_batch_write_builder().new_update(),),
    "BatchTableWrite": (
        lambda lake: lake.table("keyed").new_batch_write_builder().new_write(),
        lambda lake: lake.table("plain").new_batch_write_builder().new_write(),
    ),
    "BatchWriteBuilder": (lambda lake: lake.table("plain").new_batch_write_builder(),),
    "CommitMessage": (lambda lake: lake.messages()[0],),
    "ConfigOption": (lambda _: CoreOptions.BUCKET,),
    "CoreOptions": (lambda lake: lake.table().options,),
    "DataField": (lambda _: lw.DataField(0, "a", INT),),
    "DataSplit": (lambda lake: lake.splits()[0],),
    "FileStoreTable": (lambda lake: lake.table("keyed"), lambda lake: lake.table("tracked")),
    "FileSystemCatalog": (lambda lake: lake.catalog,),
    "Identifier": (lambda _: lw.Identifier.create("d", "keyed"),),
    "MapType": (lambda _: lw.MapType(True, INT, INT),),  # noqa: FBT003
    "MergeBuilder": (lambda lake: lake.table("plain").merge(lake.rows(), ["id", "day"]),),
    "MultisetType": (lambda _: lw.MultisetType(True, INT),),  # noqa: FBT003
    "Plan": (lambda lake: lake.table().new_read_builder().new_scan().plan(),),
    "PostponeFixedBucketBatchTableWrite": (
        lambda lake: lake.table("postponed").new_postpone_fixed_bucket_write_builder().new_write(),
    ),
    "PostponeFixedBucketWriteBuilder": (
        lambda lake: lake.table("postponed").new_postpone_fixed_bucket_write_builder(),
    ),
    "Predicate": (lambda _: PREDICATE,),
    "PredicateBuilder": (lambda lake: lake.table().new_read_builder().new_predicate_builder(),),
    "ReadBuilder": (lambda lake: lake.table().new_read_builder(),),
    "RowType": (lambda lake: lake.table().row_type(),),
    "ShardTableUpdator": (
        lambda lake: lake.table("tracked").new_batch_write_builder().new_update().new_shard_updator(0, 1),
    ),
    "Snapshot": (lambda lake: lake.snapshot(),),
    "StreamReadBuilder": (lambda lake: lake.table().new_stream_read_builder(),),
    "StreamScan": (lambda lake: lake.table().new_stream_read_builder().new_streaming_scan(),),
    "StreamTableCommit": (lambda lake: lake.table("plain").new_stream_write_builder().new_commit(),),
    "StreamTableUpdate": (lambda lake: lake.table("tracked").new_stream_write_builder().new_update(),),
    "StreamTableWrite": (lambda lake: lake.table("plain").new_stream_write_builder().new_write(),),
    "StreamWriteBuilder": (lambda lake: lake.table("plain").new_stream_write_builder(),),
    "SystemReadBuilder": (lambda lake: lake.catalog.get_table("d.keyed$files").new_read_builder(),),
    "SystemTable": (lambda lake: lake.catalog.get_table("d.keyed$files"),),
    "SystemTableRead": (lambda lake: lake.catalog.get_table("d.keyed$files").new_read_builder().new_read(),),
    "TableCommit": (lambda lake: lake.table("plain").new_batch_write_builder().new_commit(),),
    "TableRead": (lambda lake: lake.table().new_read_builder().new_read(),),
    "TableScan": (lambda lake: lake.table("tracked").new_read_builder().new_scan(),),
    "TableSchema": (lambda lake: lake.table().schema,),
    "TableUpdate": (lambda lake: lake.table("tracked").new_batch_write_builder().new_update(),),
    "TableWrite": (lambda lake: lake.table("plain").new_batch_write_builder().new_write(),),
}

# Values that only calls return: nobody makes them, so that their constructors check nothing.
RETURNED = frozenset(
    "BatchTableCommit BatchTableUpdate BatchTableWrite BatchWriteBuilder CatalogFactory CommitMessage CommitResult"
    " ConfigOption CoreOptions DataFile DataSplit Database ExplainResult FileStoreTable FileSystemCatalog MergeBuilder"
    " ExplainSplitInfo ManifestEntry"
    " PagedList Partition Plan PostponeFixedBucketBatchTableWrite PostponeFixedBucketWriteBuilder Predicate Progress"
    " IngestResult ReadBuilder SchemaChange ShardTableUpdator Snapshot StreamReadBuilder StreamScan StreamTableCommit"
    " StreamTableUpdate StreamTableWrite StreamWriteBuilder SystemTable TableCommit TableRead TableScan TableSchema"
    " TableUpdate TableWrite Tag UpdateResult WhenMatched AuditLog ColumnChange ColumnRef CommitContext CompactResult"
    " DatabaseCompaction ManifestsResult PartitionEstimate"
    " DeletionFile ExpireResult IngestPlan LiteralValue MigrateResult OrphanResult PruningStat Row SimpleStats"
    " SourceReport SystemPlan SystemReadBuilder SystemSplit SystemTableRead SystemTableScan VectorType"
    " AnalyzeResult ColumnStatistics TableStatistics PartitionExpireResult PurgeResult WriteResult Finding VerifyResult"
    " CopyResult Check Diagnosis MetricsEvent RepairResult RepairStep UnexistingResult DropIndexResult TransformResult"
    " FastForwardResult".split()
)

# Valid values by the name of an argument; by `Class.method.argument` where that name means several things.
ARGUMENTS: Mapping[str, Callable[[Lake], object]] = {
    "assignments": lambda _: {"n": 7},
    "batch": lambda lake: lake.rows(),
    "row_ranges": lambda _: [(0, 1)],
    "read_type": lambda lake: lake.table().fields,
    "partition_filter": lambda _: "day = 'a'",
    "branch": lambda _: "dev",
    "branch_name": lambda _: "dev",
    "bucket_filter": lambda _: lambda bucket: bucket == 0,
    "bucket_ids": lambda _: [0],
    "buckets": lambda _: 2,
    "callback": lambda _: lambda _context: None,
    "catalog": lambda lake: lake.catalog,
    "catalog_options": lambda lake: {"warehouse": str(lake.root)},
    "changes": lambda _: [lw.SchemaChange.update_comment("new")],
    "chunk_size": lambda _: 2,
    "column": lambda _: "n",
    "index_column": lambda _: "n",
    "columns": lambda _: ["n"],
    "commit_identifier": lambda _: 5,
    "commit_messages": lambda lake: lake.messages(),
    "comment": lambda _: "new",
    "commit_user": lambda _: "me",
    "condition": lambda _: None,
    "consumer_id": lambda _: "me",
    "data": lambda lake: lake.rows(),
    "data_type": lambda _: INT,
    "database": lambda _: "d",
    "database_name": lambda _: "d",
    "dataframe": lambda lake: lake.rows().to_pandas(),
    "default_value": lambda _: "1",
    "element_type": lambda _: INT,
    "end": lambda _: 2,
    "end_pos": lambda _: 2,
    "extra": lambda _: {"bucket": "2"},
    "field": lambda _: "n",
    "file": lambda _: io.BytesIO(b"bytes"),
    "fn": lambda _: lambda rows: rows,
    "form": lambda _: "bytes",
    "job_id": lambda _: "nightly",
    "uri": lambda lake: f"file:{lake.source()}",
    "field_name": lambda _: "n",
    "fields": lambda _: [lw.DataField(0, "a", INT)],
    "from_branch": lambda _: "dev",
    "full_name": lambda _: "d.keyed",
    "group": lambda _: (0,),
    "has_primary_key": lambda _: True,
    "hook": lambda _: lambda _event: None,
    "id": lambda _: 0,
    "identifier": lambda _: "d.keyed",
    "ids": lambda _: [0],
    "idx_of_this_subtask": lambda _: 0,
    "included_lower_bound": lambda _: 1,
    "included_upper_bound": lambda _: 3,
    "job": lambda lake: JobRun.begin(lake.table("plain").store, "job"),
    "key": lambda _: "snapshot.num-retained.max",
    "key_type": lambda _: INT,
    "keys": lambda _: ["id", "day"],
    "limit": lambda _: 2,
    "literal": lambda _: 2,
    "literals": lambda _: [2],
    "messages": lambda lake: lake.messages(),
    "method": lambda _: "equal",
    "mode": lambda _: "append",
    "move": lambda _: lw.Move.first("n"),
    "name": lambda _: "d",
    "new_data_type": lambda _: "BIGINT",
    "new_name": lambda _: "other",
    "new_nullability": lambda _: True,
    "next_snapshot": lambda _: 2,
    "nullable": lambda _: True,
    "number_of_para_subtasks": lambda _: 2,
    "old_name": lambda _: "v1",
    "on": lambda _: ["id", "day"],
    "option": lambda _: CoreOptions.BUCKET,
    "options": lambda _: {},
    "other": lambda _: "id",
    "pa_schema": lambda _: _FIELDS,
    "partitions": lambda _: [{"day": "a"}],
    "path": lambda lake: lake.table().table_path,
    "pattern_literal": lambda _: "a",
    "poll_interval_ms": lambda _: 10,
    "position": lambda _: Position.FIRST,
    "predicate": lambda _: PREDICATE,
    "predicates": lambda _: [PREDICATE],
    "projection": lambda _: ["n"],
    "reference_field_name": lambda _: "id",
    "row_ids": lambda _: [0],
    "schema": lambda _: lw.Schema.from_pyarrow_schema(_FIELDS),
    "seed": lambda _: 1,
    "shard_num": lambda _: 0,
    "snapshot_id": lambda _: 1,
    "source": lambda lake: lake.rows(),
    "source_identifier": lambda _: "d.keyed",
    "splits": lambda lake: lake.splits(),
    "start": lambda _: 0,
    "start_pos": lambda _: 0,
    "table": lambda lake: lake.table(),
    "table_name": lambda _: "t",
    "tag_name": lambda _: "v1",
    "target": lambda _: 1,
    "target_identifier": lambda _: "d.new",
    "text": lambda _: "2",
    "timestamp": lambda lake: lake.snapshot().time_millis,
    "to_branch": lambda _: "prod",
    "total_shard_count": lambda _: 1,
    "type": lambda _: "INT",
    "update_cols": lambda _: ["n"],
    "upsert_keys": lambda _: ["id", "day"],
    "value": lambda _: 1,
    "value_type": lambda _: INT,
    "watermark": lambda _: 1,
    "where": lambda _: "id = 1",
    "write_cols": lambda _: ["id", "day"],
    "ArrayType.from_dict.data": lambda _: {"type": "ARRAY", "element": "INT"},
    "CommitMessage.deserialize.data": lambda lake: lake.messages()[0].serialize(),
    "CommitMessage.from_java.data": lambda lake: lake.messages()[0].to_java(),
    "DataField.from_dict.data": lambda _: {"id": 0, "name": "a", "type": "INT"},
    "DataField.type": lambda _: INT,
    "DataSplit.deserialize.data": lambda lake: lake.splits()[0].serialize(),
    "FileStoreTable.drop_branch.name": lambda _: "dev",
    "FileSystemCatalog.create_branch.branch_name": lambda _: "new",
    "FileSystemCatalog.create_database.name": lambda _: "e",
    "FileSystemCatalog.create_table.identifier": lambda _: "d.new",
    "FileSystemCatalog.create_tag.tag_name": lambda _: "v2",
    "FileStoreTable.create_tag.tag_name": lambda _: "v2",
    "FileStoreTable.rename_tag.new_name": lambda _: "v2",
    "FileStoreTable.update_by_row_id.data": lambda _: pa.table({"_ROW_ID": [0], "n": [7]}),
    "Identifier.create.table": lambda _: "keyed",
    "Identifier.object": lambda _: "keyed",
    "MapType.from_dict.data": lambda _: {"type": "MAP", "key": "INT", "value": "INT"},
    "MergeBuilder.plan.source": lambda _: _FIELDS,
    "MultisetType.from_dict.data": lambda _: {"type": "MULTISET", "element": "INT"},
    "PredicateBuilder.contains.field": lambda _: "day",
    "PredicateBuilder.endswith.field": lambda _: "day",
    "PredicateBuilder.like.field": lambda _: "day",
    "PredicateBuilder.startswith.field": lambda _: "day",
    "RowType.from_dict.data": lambda _: {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": "INT"}]},
    "ShardTableUpdator.update_by_arrow_batch.data": lambda _: pa.table({"n": [7]}),
    "StreamScan.stream_sync.sleep": lambda _: lambda _seconds: None,
    "StreamTableCommit.filter_and_commit.commit_messages": lambda lake: {5: lake.messages()},
    "TableSchema.field.name": lambda _: "n",
    "TableSchema.from_json.path": lambda _: "schema-0",
    "TableSchema.from_json.text": lambda lake: lake.table().schema.to_json(),
    "BatchTableUpdate.update_by_arrow_with_row_id.table": lambda _: pa.table({"_ROW_ID": [0], "n": [7]}),
    "BatchTableUpdate.upsert_by_arrow_with_key.table": lambda lake: lake.rows(),
    "StreamTableUpdate.update_by_arrow_with_row_id.table": lambda _: pa.table({"_ROW_ID": [0], "n": [7]}),
    "StreamTableUpdate.upsert_by_arrow_with_key.table": lambda lake: lake.rows(),
    "ingest.source": lambda lake: lake.source(),
    "copy_table.source_table": lambda lake: lake.table(),
    "copy_table.target_catalog": lambda lake: lake.catalog,
    "copy_table.identifier": lambda _: "d.copied",
    "copy_table.where": lambda _: "day = 'a'",
    "migrate.catalog": lambda lake: lake.catalog,
    "migrate.identifier": lambda _: "d.moved",
    "migrate.source": lambda lake: lake.source(),
    "migrate.format": lambda _: "parquet",
    "migrate.partition_types": lambda _: {},
    "migrate.options": lambda _: {},
    "source_col.name": lambda _: "n",
    "target_col.name": lambda _: "n",
}

# These start an engine once their arguments are right: the tests of the engines call them.
ENGINES = frozenset({"to_ray", "to_spark", "to_torch", "write_ray", "write_spark"})


# Public for other rooms, not for users: what comes in is checked by those that call them.
INTERNAL = frozenset(
    "Predicate.mask_of DataSplit.deletion_of SystemTable.read_builder"
    " AuditLog.builder_of AuditLog.configure_read ReadBuilder.started_as"
    " TableSchema.blob_file_fields TableSchema.vector_file_fields".split()
)
# Of tuples of Python, whose own errors they raise.
OF_TUPLES = frozenset({"Row.count", "Row.get_field", "Row.index"})


@dataclass(frozen=True)
class Call:
    """One public callable, on one receiver."""

    name: str
    find: Callable[[Lake], Callable[..., object]]
    signature: inspect.Signature

    def valid(self, lake: Lake) -> dict[str, object]:
        """Return valid arguments: those that are needed, and no others."""
        needed = [p.name for p in self.parameters if p.default is inspect.Parameter.empty]
        return {name: self.value(name)(lake) for name in needed}

    def value(self, argument: str) -> Callable[[Lake], object]:
        found = ARGUMENTS.get(f"{self.name}.{argument}") or ARGUMENTS.get(argument)
        if found is None:
            pytest.fail(f"give ARGUMENTS a valid value for {self.name}.{argument}")
        return found

    @property
    def parameters(self) -> list[inspect.Parameter]:
        variable = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
        return [p for p in self.signature.parameters.values() if p.name != "self" and p.kind not in variable]


def _calls() -> Iterator[Call]:
    for name in (*lw.__all__, *BY_TOPIC):
        public = getattr(lw, name)
        if not isinstance(public, type):
            if callable(public) and get_origin(public) is None:  # no name of a type, such as WriteMode
                yield Call(name, _always(public), inspect.signature(public))
            continue
        if issubclass(public, BaseException | Enum):
            continue
        if name not in RETURNED:
            yield Call(name, _always(public), inspect.signature(public))
        yield from _methods(name, public)


def _methods(name: str, public: type) -> Iterator[Call]:
    for method, found in inspect.getmembers(public, callable):
        if (
            method.startswith("_")
            or method in ENGINES
            or f"{name}.{method}" in INTERNAL | OF_TUPLES
            or isinstance(found, type | ConfigOption)
        ):
            continue
        signature = inspect.signature(found)
        if "self" not in signature.parameters:
            yield Call(f"{name}.{method}", _always(found), signature)
            continue
        if len(signature.parameters) == 1:
            continue  # nothing can be handed in
        assert name in RECEIVERS, f"give RECEIVERS an object of {name}"
        for make in RECEIVERS[name]:
            yield Call(f"{name}.{method}", _method_of(make, method), signature)


def _always(found: Callable[..., object]) -> Callable[[Lake], Callable[..., object]]:
    return lambda _: found


def _method_of(make: Callable[[Lake], object], method: str) -> Callable[[Lake], Callable[..., object]]:
    return lambda lake: getattr(make(lake), method)


# What is put in: values that nobody can mean, and some that have a meaning in some places.


def _wrong_values(lake: Lake) -> list[object]:
    rows = lake.rows()
    return [
        None,
        5,
        -1,
        2**70,
        1.5,
        float("nan"),
        "",
        "a\0b",
        "../x",
        "\ud800",
        "x" * 100_000,
        b"x",
        [],
        [[1, ["a"]]],
        [None],
        (5, "x"),
        {},
        {5: object()},
        {"x": object()},
        set(),
        {"n"},
        object(),
        lambda *_: None,
        type,
        (character for character in "ab"),
        datetime(2026, 1, 1, tzinfo=UTC),
        rows.schema,
        rows,
        rows.to_pandas(),
        pd.DataFrame({"x": [1, "a", object()]}),
        lake.table("plain"),
        True,
        PREDICATE,
        lw.DataField(0, "a", INT),
    ]


@contextmanager
def _bounded(what: str) -> Iterator[None]:
    """Fail, instead of hanging, when something takes too long."""

    def fail(_number: int, _frame: FrameType | None) -> NoReturn:
        pytest.fail(f"{what} hangs", pytrace=False)

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(_SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _outcome(call: Call, function: Callable[..., object], arguments: Mapping[str, object]) -> BaseException | None:
    """Call, read what is lazy a little, close what is open, and return what was raised."""
    try:
        answer = function(**arguments)
        if isinstance(answer, GeneratorType | pa.RecordBatchReader):
            next(iter(answer), None)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or type(error).__module__.startswith("_pytest"):
            raise
        return error
    finally:
        close = getattr(getattr(function, "__self__", None), "close", None)
        if close is not None and call.name.split(".")[-1] != "close":
            close()
    return None


CALLS = [call for call in _calls() if call.parameters]


@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda number: f"{CALLS[number].name}-{number}")
def test_wrong_values_are_refused_and_change_nothing(number: int, workplace: Workplace) -> None:
    call, lake = CALLS[number], workplace.lake
    call.valid(lake)
    call.find(lake)
    prepares = workplace.restore() != workplace.whole  # messages that are handed in were written to the disk
    complaints = []
    for turn, parameter in enumerate(call.parameters, number):
        for place, wrong in thinned(list(enumerate(_wrong_values(lake))), turn):
            what = f"{call.name}({parameter.name}={type(wrong)!s} #{place})"
            with _bounded(what), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                valid = call.valid(lake)
                function = call.find(lake)
                start = workplace.files() if prepares else workplace.whole
                error = _outcome(call, function, {**valid, parameter.name: wrong})
            if error is not None and not isinstance(error, LakewrightError):
                complaints.append(f"{what}: {type(error).__name__}: {str(error)[:150]}")
            if error is not None and len(str(error)) > 3000:
                complaints.append(f"{what}: a message of {len(str(error))} characters")
            if workplace.restore() != start and error is not None:
                complaints.append(f"{what}: raised {type(error).__name__}, and the disk changed")
    assert not complaints, "\n".join(complaints)
