"""Rules that every schema keeps; which tables lakewright can read and write."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.external_paths import external_paths
from lakewright.spec.file_formats import FORMAT_RULES, check_formats
from lakewright.spec.merge_engine import MergeEngine, MovePolicy
from lakewright.spec.option_checks import check_not_refused, first_time
from lakewright.spec.option_table import FIELD_OPTION, READ_REFUSED, WARNED, WRITE_REFUSED, OptionRule
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.scalars import cast_default
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import KEY_PREFIX, POSTPONE, UNSUPPORTED_ROOTS, BucketMode, TableSchema
from lakewright.spec.types import (
    TEXT_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    blob_fields,
    types_inside,
)

# ---- Rules of schemas ------------------------------------------------------------------------------------------------
# A schema that breaks a rule never becomes a file.

SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidInputError if a schema breaks a rule. Every schema is checked here before it becomes a file."""
    schema.table_options.check()
    _check_names(schema.fields)
    for name in schema.field_names:
        if name in SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"the column name {name!r} belongs to the format: choose another", column=name)
    _check_keys("partition key", schema, schema.partition_keys)
    _check_keys("primary key", schema, schema.primary_keys)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError(
            f"the primary key {list(schema.primary_keys)} must have a column that is not a partition key",
            columns=schema.primary_keys,
        )
    _check_buckets(schema)
    _check_row_tracking(schema)
    _check_blob_fields(schema)
    _check_merging(schema)
    _check_column_settings(schema)
    _check_branches(schema.table_options)
    for name in schema.table_options.vector_field or ():
        if not isinstance(dtype := schema.field(name).type, VectorType):
            raise InvalidInputError(
                f"'vector-field' names {name!r}, which has the type {dtype}: declare it as VECTOR<FLOAT, n>",
                option="vector-field",
                column=name,
            )
    _check_branches(schema.table_options)
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"a name, comment or option of the schema is not valid Unicode: {cause}") from cause


def _check_branches(options: TableOptions) -> None:
    if (options.scan_fallback_branch or "").strip() and (options.scan_primary_branch or "").strip():
        raise InvalidInputError(
            "only one of 'scan.fallback-branch' and 'scan.primary-branch' may be set: remove the other",
            option=TableOptions.scan_primary_branch.key(),
        )


def _check_names(fields: Sequence[DataField]) -> None:
    """Check the names of the columns and, level by level, of the fields inside them."""
    _check_level(fields, "the table")
    for column in fields:
        for part in types_inside(column.type):
            if isinstance(part, RowType):
                _check_level(part.fields, f"a ROW of the column {column.name!r}")


def _check_level(fields: Sequence[DataField], where: str) -> None:
    if not fields:
        raise InvalidInputError(f"{where} has no columns: give it at least one")
    seen: set[str] = set()
    for name in (column.name for column in fields):
        if not name.strip():
            raise InvalidInputError(f"{where} has a column with the blank name {name!r}: name it", column=name)
        if any(unicodedata.category(character) == "Cc" for character in name):
            raise InvalidInputError(f"the column name {name!r} has control characters: remove them", column=name)
        if name in seen:
            raise InvalidInputError(f"{where} has two columns named {name!r}: rename one", column=name)
        seen.add(name)


def _check_blob_fields(schema: TableSchema) -> None:
    """Raise InvalidInputError for options that name columns which are no BLOB, and for rows of nothing else."""
    blobs = blob_fields(schema.fields)
    names = {field.name for field in blobs}
    for option in (TableOptions.blob_field, TableOptions.blob_descriptor_field):
        for name in schema.table_options.get(option) or ():
            if name not in names:
                raise InvalidInputError(
                    f"the option {option.key()!r} names {name!r}, which is not a column of the type BLOB: declare it "
                    "as BLOB, or take it out of the option",
                    option=option.key(),
                    column=name,
                )
    if blobs and len(blobs) == len(schema.fields) - len(schema.partition_keys):
        raise InvalidInputError(
            "a table with BLOB columns needs a column of another type: add one", column=blobs[0].name
        )


def _check_keys(kind: str, schema: TableSchema, names: Sequence[str]) -> None:
    for name in names:
        dtype = schema.field(name).type
        if names.count(name) > 1:
            raise InvalidInputError(f"the {kind} names the column {name!r} twice: name it once", column=name)
        if not isinstance(dtype, AtomicType) or dtype.root in {*UNSUPPORTED_ROOTS, "VARIANT"}:
            raise InvalidInputError(
                f"the column {name!r} cannot be part of the {kind}: {dtype} has no order; use a scalar column",
                column=name,
            )


def _check_buckets(schema: TableSchema) -> None:
    options = schema.table_options
    buckets, declared = options.bucket, options.bucket_key
    if declared:
        _check_keys("bucket key", schema, declared)
    shared = set(declared) & set(schema.partition_keys)
    outside = set(declared) - set(schema.primary_keys)
    if shared:
        raise InvalidInputError(
            f"the bucket key cannot hold partition columns: remove {sorted(shared)}", option="bucket-key"
        )
    if schema.primary_keys and outside:
        raise InvalidInputError(
            f"the bucket key must be inside the primary key: remove {sorted(outside)}", option="bucket-key"
        )
    if buckets == -1 and declared:
        raise InvalidInputError(
            "a 'bucket-key' needs a fixed number of buckets: set 'bucket' or remove it", option="bucket-key"
        )
    if buckets > 0 and not schema.bucket_keys:
        raise InvalidInputError(
            f"a table with fixed buckets and no primary key needs a 'bucket-key': set 'bucket-key' to the columns that "
            f"choose the bucket, or 'bucket' to -1 instead of {buckets}",
            option="bucket-key",
        )
    if buckets == POSTPONE and not schema.primary_keys:
        raise InvalidInputError("'bucket' = -2 (postpone) needs a primary key", option="bucket")
    if buckets != -1 and schema.crosses_partitions:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        raise InvalidInputError(
            f"the primary key lacks the partition columns {missing}, so a key could not be found in other partitions:"
            f" add them to the primary key, or set 'bucket' to -1 instead of {buckets}",
            option="bucket",
            columns=tuple(missing),
        )
    if options.bucket_function_type == "mod" and buckets > 0:
        types = [field.type for field in schema.bucket_fields]
        if len(types) != 1 or not isinstance(types[0], AtomicType) or types[0].root not in {"INT", "BIGINT"}:
            raise InvalidInputError(
                "the bucket function 'mod' needs exactly one bucket key column, of type INT or BIGINT",
                option="bucket-function.type",
            )


def _check_row_tracking(schema: TableSchema) -> None:
    options = schema.table_options
    tracking = options.row_tracking_enabled
    if tracking and schema.primary_keys:
        raise InvalidInputError(
            "'row-tracking.enabled' needs a table without primary key", option="row-tracking.enabled"
        )
    if tracking and options.bucket != -1:
        raise InvalidInputError("'row-tracking.enabled' needs 'bucket' = -1", option="row-tracking.enabled")
    if options.data_evolution_enabled and not tracking:
        raise InvalidInputError(
            "'data-evolution.enabled' needs 'row-tracking.enabled' = true", option="data-evolution.enabled"
        )


def _check_merging(schema: TableSchema) -> None:
    """Check the options for how rows of one key are merged, and which changelog is written."""
    options = schema.table_options
    _check_sequence(schema, options.sequence_field)
    _check_ignored(schema)
    if (kind_column := options.rowkind_field) is not None:
        dtype = schema.field(kind_column).type
        if not isinstance(dtype, AtomicType) or dtype.root not in TEXT_ROOTS:
            raise InvalidInputError(
                f"'rowkind.field' needs a text column, but {kind_column!r} has the type {dtype}",
                option="rowkind.field",
                column=kind_column,
            )
    if (time_column := options.record_level_time_field) is not None:
        schema.field(time_column)
    producer, engine = options.changelog_producer, options.merge_engine
    if producer is not ChangelogProducer.NONE and not schema.primary_keys:
        raise InvalidInputError("'changelog-producer' needs a primary key", option="changelog-producer")
    if schema.primary_keys and producer not in engine.traits.changelog_producers:
        raise InvalidInputError(_unfit_producer(engine, producer), option="changelog-producer")
    if schema.primary_keys and options.deletion_vectors_enabled:
        if not engine.traits.accepts_deletion_vectors:
            raise InvalidInputError(
                f"the merge engine {engine} needs no 'deletion-vectors.enabled', because nothing replaces its rows:"
                " remove the option",
                option="deletion-vectors.enabled",
            )
        if producer is ChangelogProducer.FULL_COMPACTION:
            raise InvalidInputError(
                "the changelog producer full-compaction cannot be combined with 'deletion-vectors.enabled': use lookup",
                option="changelog-producer",
            )
    if options.sequence_snapshot_ordering and not options.write_only:
        raise InvalidInputError(
            "'sequence.snapshot-ordering' needs 'write-only' = true, and a compaction in a job of its own",
            option="sequence.snapshot-ordering",
        )


def _check_ignored(schema: TableSchema) -> None:
    option = TableOptions.changelog_producer_row_deduplicate_ignore_fields
    for name in schema.table_options.changelog_producer_row_deduplicate_ignore_fields:
        if name not in schema.field_names:
            raise InvalidInputError(f"{option.key()!r} names {name!r}, which is no column", option=option.key())


def _check_sequence(schema: TableSchema, sequence: tuple[str, ...]) -> None:
    for name in sequence:
        dtype = schema.field(name).type
        if not isinstance(dtype, AtomicType) or dtype.root == "VARIANT":
            raise InvalidInputError(
                f"'sequence.field' names {name!r}, but {dtype} has no order: use a scalar column",
                option="sequence.field",
                column=name,
            )
        if sequence.count(name) > 1:
            raise InvalidInputError(
                f"'sequence.field' names the column {name!r} twice: name it once", option="sequence.field", column=name
            )
    if sequence and not (engine := schema.table_options.merge_engine).traits.accepts_sequence_field:
        raise InvalidInputError(
            f"'sequence.field' cannot be combined with the merge engine {engine}, which orders rows by their arrival:"
            " remove it, or use deduplicate with 'sequence.field.sort-order' = descending",
            option="sequence.field",
        )
    if sequence and schema.crosses_partitions:
        raise InvalidInputError(
            f"'sequence.field' needs a primary key that contains all partition keys: add"
            f" {[name for name in schema.partition_keys if name not in schema.primary_keys]} to the primary key, or"
            " remove the option",
            option="sequence.field",
        )


def _check_column_settings(schema: TableSchema) -> None:
    """Check the defaults of columns, and the options that name columns in their key."""
    for column in schema.fields:
        if column.default_value is None:
            continue
        try:
            cast_default(column.default_value, column.type)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"the default of the column {column.name!r}: {cause}", column=column.name
            ) from cause
    for match in filter(None, map(FIELD_OPTION.fullmatch, schema.options)):
        if match["columns"] not in schema.field_names:
            for name in match["columns"].split(","):
                schema.field(name.strip())


# ---- Supported tables ------------------------------------------------------------------------------------------------
# Tables of other implementations may use features that are not implemented here. Such a table is refused only if
# reads would return wrong rows, or if other implementations would read wrong rows from what lakewright writes.

_REGISTERED_BY_SERVERS = "metastore.partitioned-table"
BUCKET_FUNCTIONS = frozenset({"default", "mod", "hive"})
FILE_FORMATS = frozenset(FORMAT_RULES)
COMPRESSIONS = frozenset("none null uncompressed snappy gzip zlib deflate lz4 zstd zstandard".split())


def check_supported_for_write(schema: TableSchema) -> None:
    """Raise UnsupportedError for a table that lakewright would write differently from other implementations."""
    options = schema.table_options
    _check_options(schema, WRITE_REFUSED)
    _check_types(schema, schema.fields, "written")
    check_partition_types(schema)
    formats = _file_formats(schema)
    _refuse_others("file format", formats, FILE_FORMATS)
    check_formats(formats, schema.fields)
    codecs = {options.file_compression, *options.file_compression_per_level.values()}
    _refuse_others("file compression", codecs, COMPRESSIONS)
    if schema.bucket_mode is BucketMode.HASH_FIXED:
        _refuse_others("bucket function", {options.bucket_function_type}, BUCKET_FUNCTIONS)
        if not schema.bucket_keys and options.bucket_function_type != "default":
            raise UnsupportedError("a 'bucket-function.type' needs a 'bucket-key': make the table again with one")
    if options.data_file_external_paths:
        external_paths(options)
    if schema.primary_keys:
        _check_keyed_write(options)
    moves = options.merge_engine.traits.on_partition_change is MovePolicy.MOVE
    if moves and schema.bucket_mode is BucketMode.KEY_DYNAMIC and options.ignore_delete:
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
    _check_types(schema, schema.fields, "written")
    check_formats(_file_formats(schema), schema.fields)


def _can_hold(schema: TableSchema) -> bool:
    try:
        check_column_types(schema)
    except UnsupportedError:
        return False
    return True


def _file_formats(schema: TableSchema) -> set[str]:
    """Return the formats of all files that a table gets."""
    options = schema.table_options
    formats = {options.file_format, *options.file_format_per_level.values()}
    if schema.primary_keys:
        formats.add(options.changelog_file_format or options.file_format)
    return formats


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
    write_only = bool(keys) and schema.table_options.write_only
    said: dict[str, list[str]] = {}
    for key in keys:
        rule = WARNED[key]
        quiet = (write_only and rule.by_compactors) or rule.asks_nothing(schema.options[key])
        if not quiet and first_time(place, key):
            said.setdefault(rule.reason, []).append(f"{key!r} = {schema.options[key]!r}")
    return [f"a commit does nothing about {', '.join(options)}: {reason}" for reason, options in said.items()]


def _check_keyed_write(options: TableOptions) -> None:
    """Raise UnsupportedError for options of primary-key tables that change rows, files or their order."""
    codecs = {options.changelog_file_compression or options.file_compression}
    _refuse_others("changelog file compression", codecs, COMPRESSIONS)
    if options.sequence_snapshot_ordering and not options.write_only:
        raise UnsupportedError(
            "'sequence.snapshot-ordering' orders rows by commits, and a writer that compacts would mix them: set "
            "'write-only' = true and compact in a job of its own"
        )
    producer, engine = options.changelog_producer, options.merge_engine
    if producer not in engine.traits.changelog_producers:
        raise UnsupportedError(_unfit_producer(engine, producer))


def _unfit_producer(engine: MergeEngine, producer: ChangelogProducer) -> str:
    fit = " or ".join(one for one in ChangelogProducer if one in engine.traits.changelog_producers)
    return f"the merge engine {engine} cannot have the changelog producer {producer.value!r}: use {fit}"


def check_supported_for_read(schema: TableSchema, columns: Sequence[str] | None = None) -> None:
    """Raise UnsupportedError for a table whose rows would be read wrongly; `columns` are those to read, None: all."""
    check_options_for_read(schema)
    check_partition_types(schema)
    _check_types(schema, schema.fields if columns is None else [schema.field(name) for name in columns], "read")
    _check_types(schema, map(schema.field, {*schema.primary_keys, *schema.partition_keys}), "read")


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


def _check_options(schema: TableSchema, refused: Mapping[str, OptionRule]) -> None:
    for key in schema.options.keys() & refused.keys():
        check_not_refused(key, schema.options[key])


def _check_types(schema: TableSchema, fields: Iterable[DataField], verb: str) -> None:
    for column in fields:
        if blob_fields([column]):
            _check_blob(schema, column, verb)
            continue
        for part in types_inside(column.type):
            if isinstance(part, AtomicType) and part.root in UNSUPPORTED_ROOTS:
                remedy = "; select other columns" if verb == "read" else ""
                raise UnsupportedError(
                    f"the column {column.name!r} of type {column.type} cannot be {verb}: {part} is not "
                    f"supported{remedy}",
                    column=column.name,
                )
            # Java cannot read the elements of such arrays and maps.
            if isinstance(part, ArrayType | MultisetType | MapType) and _holds_vectors(part):
                raise UnsupportedError(
                    f"the column {column.name!r} of type {column.type} cannot be {verb}: a VECTOR inside an ARRAY or "
                    "a MAP is not supported; put it into a column or a ROW of its own, or use ARRAY in its place",
                    column=column.name,
                )


def _holds_vectors(dtype: DataType) -> bool:
    return any(isinstance(part, VectorType) for part in types_inside(dtype))


def _check_blob(schema: TableSchema, column: DataField, verb: str) -> None:
    """Raise UnsupportedError unless a table can have BLOB columns: the values are found by the ids of the rows."""
    options = schema.table_options
    if schema.primary_keys or not (options.row_tracking_enabled and options.data_evolution_enabled):
        raise UnsupportedError(
            f"the column {column.name!r} of type BLOB cannot be {verb} in this table: it needs the options "
            "'row-tracking.enabled' = true and 'data-evolution.enabled' = true and no primary key; make the table so, "
            "or use BYTES",
            column=column.name,
        )


def _refuse_others(what: str, values: Iterable[str], supported: frozenset[str]) -> None:
    for value in values:
        if value not in supported:
            raise UnsupportedError(f"the {what} {value!r} is not supported: use one of {', '.join(sorted(supported))}")
