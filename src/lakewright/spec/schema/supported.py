"""Which tables lakewright can read and write: a schema in, nothing or an `UnsupportedError` out.

Tables of other implementations may use features that are not implemented here. Such a table is refused only if reads
would return wrong rows, or if other implementations would read wrong rows from what lakewright writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakewright.errors import UnsupportedError
from lakewright.spec.options import ChangelogProducer, CoreOptions, MergeEngine
from lakewright.spec.schema.external_paths import external_paths
from lakewright.spec.schema.option_keys import READ_REFUSED, WARNED, WRITE_REFUSED, Rule, check_not_refused, first_time
from lakewright.spec.schema.table_schema import UNSUPPORTED_ROOTS, BucketMode, TableSchema
from lakewright.spec.types import AtomicType, DataField, VectorType, types_inside

_REGISTERED_BY_SERVERS = "metastore.partitioned-table"
BUCKET_FUNCTIONS = frozenset({"default", "mod", "hive"})
FILE_FORMATS = frozenset({"parquet", "orc", "avro"})
_AVRO_PRECISION = {"TIME": 3, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
COMPRESSIONS = frozenset("none null uncompressed snappy gzip zlib deflate lz4 zstd zstandard".split())


def check_supported_for_write(schema: TableSchema) -> None:
    """Raise UnsupportedError for a table that lakewright would write differently from other implementations."""
    options = schema.core_options
    _check_options(schema, WRITE_REFUSED)
    _check_types(schema.fields, "written")
    check_partition_types(schema)
    formats = {options.file_format(), *options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).values()}
    _refuse_others("file format", formats, FILE_FORMATS)
    codecs = {options.file_compression(), *options.get(CoreOptions.FILE_COMPRESSION_PER_LEVEL).values()}
    _refuse_others("file compression", codecs, COMPRESSIONS)
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        _refuse_others("bucket function", {options.get(CoreOptions.BUCKET_FUNCTION_TYPE)}, BUCKET_FUNCTIONS)
        if not schema.bucket_keys and options.get(CoreOptions.BUCKET_FUNCTION_TYPE) != "default":
            raise UnsupportedError("a 'bucket-function.type' needs a 'bucket-key': make the table again with one")
    if options.get(CoreOptions.DATA_FILE_EXTERNAL_PATHS):
        external_paths(options)
    if schema.primary_keys:
        _check_keyed_write(options)
    moves = schema.bucket_mode is BucketMode.KEY_DYNAMIC and options.merge_engine() is MergeEngine.DEDUPLICATE
    if moves and options.get(CoreOptions.IGNORE_DELETE):
        raise UnsupportedError(
            "a key that moves to another partition is deleted from the old one, and 'ignore-delete' would leave it in "
            "both: remove the option, or add the partition columns to the primary key"
        )


def check_column_types(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise UnsupportedError if a new or changed table has columns that its writers would refuse.

    `before` is the table before a change: what could not be written then does not make the change an error.
    """
    if before is not None and not _can_hold(before):
        return
    _check_types(schema.fields, "written")
    _check_avro(schema)


def _can_hold(schema: TableSchema) -> bool:
    try:
        check_column_types(schema)
    except UnsupportedError:
        return False
    return True


def _check_avro(schema: TableSchema) -> None:
    """Raise UnsupportedError for times that Avro, if files of the table are written in it, cannot hold."""
    options = schema.core_options
    formats = {options.file_format(), *options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).values()}
    if schema.primary_keys:
        formats.add(options.get(CoreOptions.CHANGELOG_FILE_FORMAT) or options.file_format())
    if "avro" not in formats:
        return
    for column in schema.fields:
        for part in types_inside(column.type):
            limit = _AVRO_PRECISION.get(part.root) if isinstance(part, AtomicType) else None
            if limit is not None and isinstance(part, AtomicType) and part.precision > limit:
                raise UnsupportedError(
                    f"the column {column.name!r} of type {column.type} cannot be written: Avro files cannot hold "
                    f"{part}; lower its precision to {limit}, or use another file format",
                    column=column.name,
                    type=str(part),
                )


def doubtful_keys(schema: TableSchema) -> list[str]:
    """Return warnings for a writer about keys that only pypaimon allows; rows get the same buckets as there."""
    if schema.bucket_mode is not BucketMode.HASH_FIXED:
        return []
    warnings = []
    if not schema.bucket_keys:
        warnings.append(
            "the table has fixed buckets and no 'bucket-key', so all rows of a partition go into one bucket; make the "
            "table again with a 'bucket-key', or with 'bucket' = -1"
        )
    if schema.crosses_partitions:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        warnings.append(
            f"the buckets are fixed and the primary key lacks the partition columns {missing}, so a key is unique in "
            "its partition only, and stays there when it is written to another; make the table again with them in the "
            "primary key, or with 'bucket' = -1"
        )
    return warnings


def unkept_options(schema: TableSchema, place: str, *, on_server: bool = False) -> list[str]:
    """Return warnings about options that ask others to do something at a commit, and lakewright does not do it.

    Each is returned once per process for the table at a place; options with one reason are in one warning. A server
    that owns the history registers partitions itself, from what a commit tells it.
    """
    keys = sorted(schema.options.keys() & WARNED.keys() - ({_REGISTERED_BY_SERVERS} if on_server else set()))
    write_only = bool(keys) and schema.core_options.get(CoreOptions.WRITE_ONLY)
    said: dict[str, list[str]] = {}
    for key in keys:
        rule = WARNED[key]
        quiet = (write_only and rule.by_compactors) or rule.asks_nothing(schema.options[key])
        if not quiet and first_time(place, key):
            said.setdefault(rule.reason, []).append(f"{key!r} = {schema.options[key]!r}")
    return [f"a commit does nothing about {', '.join(options)}: {reason}" for reason, options in said.items()]


def _check_keyed_write(options: CoreOptions) -> None:
    """Raise UnsupportedError for options of primary-key tables that change rows, files or their order."""
    changelog = {options.get(CoreOptions.CHANGELOG_FILE_FORMAT) or options.file_format()}
    _refuse_others("changelog file format", changelog, FILE_FORMATS)
    codecs = {options.get(CoreOptions.CHANGELOG_FILE_COMPRESSION) or options.file_compression()}
    _refuse_others("changelog file compression", codecs, COMPRESSIONS)
    if options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING) and not options.get(CoreOptions.WRITE_ONLY):
        raise UnsupportedError(
            "'sequence.snapshot-ordering' orders rows by commits, and a writer that compacts would mix them: set "
            "'write-only' = true and compact in a job of its own"
        )
    producer, engine = options.get(CoreOptions.CHANGELOG_PRODUCER), options.merge_engine()
    if engine is MergeEngine.FIRST_ROW and producer not in {ChangelogProducer.NONE, ChangelogProducer.LOOKUP}:
        raise UnsupportedError(
            f"the merge engine first-row cannot have the changelog producer {producer.value!r}: use none or lookup"
        )


def check_supported_for_read(schema: TableSchema, columns: Sequence[str] | None = None) -> None:
    """Raise UnsupportedError for a table whose rows would be read wrongly; `columns` are those to read, None: all."""
    check_options_for_read(schema)
    check_partition_types(schema)
    _check_types(schema.fields if columns is None else [schema.field(name) for name in columns], "read")


def check_partition_types(schema: TableSchema) -> None:
    """Raise UnsupportedError for partitions by binary values: implementations name their directories differently."""
    for column in schema.partition_fields:
        if isinstance(column.type, AtomicType) and column.type.root in {"BINARY", "VARBINARY"}:
            raise UnsupportedError(
                f"the column {column.name!r} of type {column.type} cannot be a partition key: every implementation "
                "names the directories its own way and does not find those of others; read such a table with its "
                "writer, and partition by the hexadecimal text of the column",
                column=column.name,
            )


def check_options_for_read(schema: TableSchema) -> None:
    """Raise UnsupportedError if an option changes which rows a read returns, and lakewright would ignore it."""
    _check_options(schema, READ_REFUSED)


def _check_options(schema: TableSchema, refused: Mapping[str, Rule]) -> None:
    for key in schema.options.keys() & refused.keys():
        check_not_refused(key, schema.options[key])


def _check_types(fields: Iterable[DataField], verb: str) -> None:
    for column in fields:
        for part in types_inside(column.type):
            if isinstance(part, VectorType) or (isinstance(part, AtomicType) and part.root in UNSUPPORTED_ROOTS):
                raise UnsupportedError(
                    f"the column {column.name!r} of type {column.type} cannot be {verb}: {part} is not supported",
                    column=column.name,
                )


def _refuse_others(what: str, values: Iterable[str], supported: frozenset[str]) -> None:
    for value in values:
        if value not in supported:
            raise UnsupportedError(f"the {what} {value!r} is not supported: use one of {', '.join(sorted(supported))}")
