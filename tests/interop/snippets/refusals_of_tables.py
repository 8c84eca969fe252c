"""What catalogs, schemas, tags, branches and reads refuse: the kind of exception, and the words that callers look for."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import (
    BranchAlreadyExistException,
    BranchNotExistException,
    DatabaseAlreadyExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
)
from pypaimon.common.identifier import Identifier
from pypaimon.common.predicate import Predicate
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import Move, SchemaChange

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("db", False)
columns = pa.schema([("k", pa.int64()), ("v", pa.string()), ("n", pa.int32())])


def create(name, options=None, partition_keys=None, primary_keys=None, schema=columns):
    catalog.create_table(f"db.{name}", Schema.from_pyarrow_schema(schema, partition_keys, primary_keys, options), False)
    return catalog.get_table(f"db.{name}")


def write(table):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"k": [1, 2], "v": ["a", "b"], "n": [1, 2]}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


empty = create("empty")
parted = create("parted", {"bucket": "2"}, ["v"], ["v", "k"])
table = create("t", {"bucket": "2", "bucket-key": "k"})
write(table)
table.create_tag("first")
catalog.create_branch("db.t", "side")


def alter(*changes, name="db.t"):
    catalog.alter_table(name, list(changes), False)


def read(options):
    builder = table.copy(options).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def find(method, column, *literals):
    return getattr(table.new_read_builder().new_predicate_builder(), method)(column, *literals)


INT, NOT_NULL = AtomicType("INT"), AtomicType("INT", nullable=False)
predicates = table.new_read_builder().new_predicate_builder()
manager, tags = table.branch_manager(), table.tag_manager()
newest = table.snapshot_manager().get_latest_snapshot()

CASES = [
    # catalogs
    (ValueError, "Paimon 'warehouse' path must be set", lambda: CatalogFactory.create({})),
    (ValueError, "Unknown catalog identifier: odd", lambda: CatalogFactory.create({"warehouse": sys.argv[1], "metastore": "odd"})),
    (DatabaseNotExistException, "Database none does not exist", lambda: catalog.get_database("none")),
    (DatabaseAlreadyExistException, "Database db already exists", lambda: catalog.create_database("db", False)),
    (ValueError, "Cannot specify location for a database", lambda: catalog.create_database("far", False, {"location": "/far"})),
    (ValueError, "Database db is not empty", lambda: catalog.drop_database("db")),
    (DatabaseNotExistException, "Database none does not exist", lambda: catalog.drop_database("none")),
    (DatabaseNotExistException, "Database none does not exist", lambda: catalog.list_tables("none")),
    (DatabaseNotExistException, "Database none does not exist", lambda: catalog.create_table("none.t", Schema.from_pyarrow_schema(columns), False)),
    (TableAlreadyExistException, "Table db.t already exists", lambda: create("t")),
    (TableNotExistException, "Table db.none does not exist", lambda: catalog.get_table("db.none")),
    (TableNotExistException, "Table db.none does not exist", lambda: catalog.drop_table("db.none", False)),
    (TableNotExistException, "Table db.none does not exist", lambda: alter(SchemaChange.drop_column("v"), name="db.none")),
    (TableNotExistException, "Table db.none does not exist", lambda: catalog.rename_table("db.none", "db.new")),
    (TableAlreadyExistException, "Table db.empty already exists", lambda: catalog.rename_table("db.t", "db.empty")),
    (TableNotExistException, "does not exist", lambda: catalog.get_table("db.t$odd")),
    (ValueError, "auto-create", lambda: create("auto", {"auto-create": "true"})),
    (ValueError, "Table Type: odd-table", lambda: create("typed", {"type": "odd-table"})),
    (ValueError, "Partitions list cannot be empty", lambda: catalog.drop_partitions("db.parted", [])),
    (ValueError, "Partition spec key 'z' is not a partition column", lambda: catalog.drop_partitions("db.parted", [{"z": "1"}])),
    (NotImplementedError, "does not support load_snapshot", lambda: catalog.load_snapshot(Identifier.from_string("db.t"))),
    # identifiers
    (ValueError, "fullName cannot be null or empty", lambda: Identifier.from_string("")),
    (ValueError, "Cannot get splits from 't' to get database and object", lambda: Identifier.from_string("t")),
    (ValueError, "Cannot get splits from 't'", lambda: catalog.get_table("t")),
    (ValueError, "Unclosed backtick in identifier", lambda: Identifier.from_string("`db.t")),
    (ValueError, "Invalid identifier format", lambda: Identifier.from_string("`db`")),
    (ValueError, "System table can only contain one '$' separator", lambda: Identifier.from_string("db.t$a$b").get_table_name()),
    (ValueError, "Invalid object name", lambda: Identifier.from_string("db.t$branch_a$b$c").get_table_name()),
    # schemas
    (ValueError, "Option 'primary-key.nullable' can only be enabled", lambda: Schema.from_pyarrow_schema(columns, options={"primary-key.nullable": "true"})),
    (ValueError, "Cannot set 'changelog-producer' to 'input' on a table without primary keys", lambda: Schema.from_pyarrow_schema(columns, options={"changelog-producer": "input"})),
    (ValueError, "Changelog producer requires primary keys to be defined", lambda: Schema.from_pyarrow_schema(columns, options={"changelog-producer": "lookup"})),
    (ValueError, "target-file-row-num should be at least 1", lambda: create("rows", {"target-file-row-num": "0"})),
    # changes of schemas
    (RuntimeError, "Failed to alter table db.t", lambda: alter(SchemaChange.drop_column("none"))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.drop_column("none"))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.rename_column("none", "new"))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.update_column_type("none", INT))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.update_column_comment("none", "c"))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.update_column_nullability("none", True))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.update_column_position(Move.first("none")))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.update_column_position(Move.after("n", "none")))),
    (RuntimeError, "Column none does not exist", lambda: alter(SchemaChange.add_column("new", INT, None, Move.after("new", "none")))),
    (RuntimeError, "Column v already exists", lambda: alter(SchemaChange.add_column("v", INT))),
    (RuntimeError, "Column v already exists", lambda: alter(SchemaChange.rename_column("n", "v"))),
    (RuntimeError, "Column new cannot specify NOT NULL in the table", lambda: alter(SchemaChange.add_column("new", NOT_NULL))),
    (RuntimeError, "Cannot drop partition key or primary key: [v]", lambda: alter(SchemaChange.drop_column("v"), name="db.parted")),
    (RuntimeError, "Cannot drop partition key or primary key: [k]", lambda: alter(SchemaChange.drop_column("k"), name="db.parted")),
    (RuntimeError, "Cannot rename partition column: [v]", lambda: alter(SchemaChange.rename_column("v", "w"), name="db.parted")),
    (RuntimeError, "Cannot update partition column: [v]", lambda: alter(SchemaChange.update_column_type("v", INT), name="db.parted")),
    (RuntimeError, "Cannot update primary key", lambda: alter(SchemaChange.update_column_type("k", INT), name="db.parted")),
    (RuntimeError, "Cannot change nullability of primary key", lambda: alter(SchemaChange.update_column_nullability("k", True), name="db.parted")),
    (RuntimeError, "Cannot update column type from nullable to non nullable for n", lambda: alter(SchemaChange.update_column_nullability("n", False))),
    (RuntimeError, "alter-column-null-to-not-null.disabled", lambda: alter(SchemaChange.update_column_nullability("n", False))),
    (RuntimeError, "cannot be converted to", lambda: alter(SchemaChange.update_column_type("n", AtomicType("BYTES")))),
    (RuntimeError, "Cannot drop all fields in table", lambda: alter(*(SchemaChange.drop_column(name) for name in ("v", "n", "k")), name="db.empty")),
    (RuntimeError, "Change 'bucket-key' is not supported yet", lambda: alter(SchemaChange.set_option("bucket-key", "n"))),
    (RuntimeError, "Change 'type' is not supported yet", lambda: alter(SchemaChange.set_option("type", "format-table"))),
    (RuntimeError, "Change 'bucket-key' is not supported yet", lambda: alter(SchemaChange.remove_option("bucket-key"))),
    (RuntimeError, "Change 'merge-engine' is not supported yet", lambda: alter(SchemaChange.set_option("merge-engine", "first-row"))),
    (RuntimeError, "Schema in filesystem exists, creation is not allowed", lambda: table.schema_manager.create_table(Schema.from_pyarrow_schema(columns))),
    # tags
    (ValueError, "Tag 'first' already exists", lambda: table.create_tag("first")),
    (ValueError, "Snapshot with id 99 doesn't exist", lambda: table.create_tag("second", 99)),
    (ValueError, "No snapshot exists in this table", lambda: empty.create_tag("second")),
    (ValueError, "Tag name shouldn't be blank", lambda: table.create_tag(" ")),
    (ValueError, "Tag name shouldn't be blank", lambda: table.delete_tag("")),
    (ValueError, "Tag name shouldn't be blank", lambda: tags.get("")),
    (ValueError, "Tag 'none' doesn't exist", lambda: tags.get_or_throw("none")),
    (ValueError, "Tag 'none' doesn't exist", lambda: table.rename_tag("none", "new")),
    (ValueError, "Tag 'first' already exists", lambda: table.rename_tag("first", "first")),
    (ValueError, "Old tag name shouldn't be blank", lambda: table.rename_tag("", "new")),
    (ValueError, "New tag name shouldn't be blank", lambda: table.rename_tag("first", "")),
    (ValueError, "Tag 'none' doesn't exist", lambda: table.replace_tag("none")),
    (ValueError, "Snapshot id '99' doesn't exist", lambda: table.replace_tag("first", 99)),
    (ValueError, "Tag 'first' already exists", lambda: tags.create_tag(newest, "first")),
    (ValueError, "Tag 'none' doesn't exist", lambda: tags.replace_tag(newest, "none")),
    (TagAlreadyExistException, "Tag first already exists", lambda: catalog.create_tag("db.t", "first")),
    (TagNotExistException, "Tag none does not exist", lambda: catalog.get_tag("db.t", "none")),
    (TagNotExistException, "Tag none does not exist", lambda: catalog.delete_tag("db.t", "none")),
    (ValueError, "Snapshot with id 99 doesn't exist", lambda: catalog.create_tag("db.t", "second", 99)),
    # rollbacks
    (ValueError, "Rollback snapshot '99' doesn't exist", lambda: table.rollback_to(99)),
    (ValueError, "doesn't exist", lambda: table.rollback_to("none")),
    (ValueError, "Unsupported rollback target type", lambda: table.rollback_to(1.5)),
    (ValueError, "No snapshot found with timestamp earlier than or equal to 1ms", lambda: table.rollback_to_timestamp(1)),
    # branches
    (ValueError, "Branch name 'side' already exists", lambda: manager.create_branch("side")),
    (ValueError, "is the default branch and cannot be used", lambda: manager.create_branch("main")),
    (ValueError, "Branch name is blank", lambda: manager.create_branch(" ")),
    (ValueError, "Branch name cannot be pure numeric string but is '12'", lambda: manager.create_branch("12")),
    (ValueError, "Tag 'none' doesn't exist", lambda: manager.create_branch("new", "none")),
    (ValueError, "Branch name 'none' doesn't exist", lambda: manager.drop_branch("none")),
    (ValueError, "Source branch 'none' doesn't exist", lambda: manager.rename_branch("none", "new")),
    (ValueError, "Target branch name shouldn't be blank", lambda: manager.rename_branch("side", "")),
    (ValueError, "Source branch name shouldn't be blank", lambda: manager.rename_branch("", "new")),
    (ValueError, "Invalid target branch name", lambda: manager.rename_branch("side", "12")),
    (ValueError, "Cannot rename the main branch", lambda: manager.rename_branch("main", "new")),
    (ValueError, "Branch name 'none' doesn't exist", lambda: manager.fast_forward("none")),
    (ValueError, "do not use in fast-forward", lambda: manager.fast_forward("main")),
    (ValueError, "Branch name is blank", lambda: manager.fast_forward("")),
    (RuntimeError, "Exception occurs when fast forward 'side'", lambda: manager.fast_forward("side")),
    (BranchAlreadyExistException, "Branch side already exists", lambda: catalog.create_branch("db.t", "side")),
    (TagNotExistException, "Tag none does not exist", lambda: catalog.create_branch("db.t", "new", "none")),
    (BranchNotExistException, "Branch none does not exist", lambda: catalog.drop_branch("db.t", "none")),
    (BranchNotExistException, "Branch none does not exist", lambda: catalog.rename_branch("db.t", "none", "new")),
    (BranchNotExistException, "Branch none does not exist", lambda: catalog.fast_forward("db.t", "none")),
    # reads and dynamic options
    (ValueError, "Cannot change bucket number", lambda: table.copy({"bucket": "5"})),
    (ValueError, "Only one of the following parameters may be set", lambda: read({"scan.snapshot-id": "1", "scan.tag-name": "first"})),
    (ValueError, "Tag 'none' doesn't exist", lambda: read({"scan.tag-name": "none"})),
    (ValueError, "doesn't exist", lambda: read({"scan.snapshot-id": "99"})),
    (ValueError, "No snapshot found with timestamp earlier than or equal to 1ms", lambda: read({"scan.timestamp-millis": "1"})),
    (ValueError, "Cannot parse timestamp", lambda: read({"scan.timestamp": "soon"})),
    (ValueError, "No snapshot found with watermark greater than or equal to 5", lambda: read({"scan.watermark": "5"})),
    (ValueError, "scan.mode is 'from-timestamp' but neither", lambda: read({"scan.mode": "from-timestamp"})),
    (ValueError, "scan.mode is 'from-snapshot-full' but scan.snapshot-id is not set", lambda: read({"scan.mode": "from-snapshot-full"})),
    (ValueError, "scan.mode is 'from-snapshot' but none of", lambda: read({"scan.mode": "from-snapshot"})),
    (ValueError, "scan.mode is 'incremental' but", lambda: read({"scan.mode": "incremental"})),
    (ValueError, "conflicts with", lambda: read({"scan.mode": "latest-full", "scan.snapshot-id": "1"})),
    (ValueError, "scan.timestamp-millis and scan.timestamp cannot both be set", lambda: read({"scan.mode": "from-timestamp", "scan.timestamp-millis": "1", "scan.timestamp": "2024-01-01 00:00:00"})),
    (ValueError, "", lambda: read({"incremental-between-timestamp": "1,2", "scan.snapshot-id": "1"})),
    (ValueError, "Ending timestamp 1 should be >= starting timestamp 2", lambda: read({"incremental-between-timestamp": "2,1"})),
    (ValueError, "incremental-between-timestamp requires start(exclusive),end(inclusive)", lambda: read({"incremental-between-timestamp": "1"})),
    (ValueError, "must be >= 1, got 0", lambda: table.new_read_builder().new_read().to_arrow(table.new_read_builder().new_scan().plan().splits(), parallelism=0)),
    # predicates
    (ValueError, "The field none is not in field list ['k', 'v', 'n']", lambda: find("equal", "none", 1)),
    (ValueError, "The field none is not in field list", lambda: find("is_null", "none")),
    (ValueError, "Unsupported predicate method: odd", lambda: Predicate("odd", 0, "k", [1]).to_arrow()),
    (ValueError, "consumer_id cannot be empty", lambda: table.consumer_manager().consumer("")),
    (ValueError, "consumer_id cannot contain path separators", lambda: table.consumer_manager().consumer("a/b")),
    (ValueError, "consumer_id cannot be a relative path component", lambda: table.consumer_manager().consumer("..")),
]

for kind, words, call in CASES:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the kind is what is looked at
        print(kind.__name__, isinstance(error, kind), repr(words), words in str(error))
    else:
        print(kind.__name__, repr(words), "accepted")
