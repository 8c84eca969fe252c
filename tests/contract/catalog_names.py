"""The first half of the contract of a catalog: databases, tables and their schemas; see `catalog_suite`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from contract.engine_suite import COLUMNS, KINDS, arrow
from lakewright.catalog.catalog import Catalog
from lakewright.errors import (
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightError,
    TableAlreadyExistException,
    TableNotExistException,
)
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Move, Schema, SchemaChange
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField, RowType
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import read_table, write_table

ODD_NAMES = ("x y", "50%", "~home", "a+b", "*", "ü", "%2F", "%252e", "a.b", "a;b?c#d", "'q\"")
REFUSED_NAMES = (".", "..", "", " ", "a/b", "a\x00b")
_NOT_NULL = "alter-column-null-to-not-null.disabled"


def ids_of(table: FileStoreTable, **arguments: Any) -> list[int]:  # noqa: ANN401 - those of `read_table`
    """Return the ids of the rows of a table, sorted."""
    return sorted(read_table(table, columns=["id"], **arguments)["id"].to_pylist())


def rows_of(*ids: int, day: str = "2026-01-01") -> pa.Table:
    """Return one row for each id."""
    return arrow([(i, day, i, f"row {i}") for i in ids])


class InDatabase:
    """A catalog and a new database in it."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.name = f"c{uuid.uuid4().hex[:10]}"
        catalog.create_database(self.name)

    def __call__(self, table: str) -> Identifier:
        """Return the identifier of a table, branch or system table of the database."""
        return Identifier(self.name, table)

    def create(self, name: str = "t", kind: str = "append", **options: str) -> FileStoreTable:
        """Make a table of a kind and return it."""
        made = KINDS[kind]
        schema = Schema.from_pyarrow_schema(
            COLUMNS, list(made.partitions), list(made.keys), options={**made.options, **options}
        )
        self.catalog.create_table(self(name), schema)
        return self.catalog.get_table(self(name))

    def written(self, name: str = "t", kind: str = "append", *, commits: int = 1) -> FileStoreTable:
        """Make a table with commits of one row each, with the ids 1, 2, ..."""
        table = self.create(name, kind)
        for number in range(1, commits + 1):
            write_table(rows_of(number), table)
        return table


# Changes of a schema, and what a table must say after each.
CHANGES: dict[str, tuple[list[SchemaChange], Callable[[TableSchema], object], object]] = {
    "add": (
        [SchemaChange.add_column("x", "DOUBLE", "new", Move.after("x", "id"))],
        lambda s: (s.field_names, s.field("x").description),
        (("id", "x", "day", "n", "text"), "new"),
    ),
    "add a nested field": (
        [
            SchemaChange.add_column("r", RowType(True, [DataField(0, "a", AtomicType("INT"))])),  # noqa: FBT003 - pypaimon's order
            SchemaChange.add_column(["r", "c"], AtomicType("BIGINT")),
        ],
        lambda s: str(s.field("r").type).count("BIGINT"),
        1,
    ),
    "drop": ([SchemaChange.drop_column("text")], lambda s: s.field_names, ("id", "day", "n")),
    "rename": ([SchemaChange.rename_column("text", "words")], lambda s: s.field_names, ("id", "day", "n", "words")),
    "type": (
        [SchemaChange.update_column_type("n", "DECIMAL(20, 0)")],
        lambda s: str(s.field("n").type),
        "DECIMAL(20, 0)",
    ),
    "not null": (
        [SchemaChange.update_column_nullability("n", new_nullability=False)],
        lambda s: s.field("n").type.nullable,
        False,
    ),
    "column comment": (
        [SchemaChange.update_column_comment("n", "a number")],
        lambda s: s.field("n").description,
        "a number",
    ),
    "default": ([SchemaChange.update_column_default_value("n", "7")], lambda s: s.field("n").default_value, "7"),
    "position": (
        [SchemaChange.update_column_position(Move.first("text"))],
        lambda s: s.field_names,
        ("text", "id", "day", "n"),
    ),
    "set an option": (
        [SchemaChange.set_option("write-only", "true")],
        lambda s: s.options.get("write-only"),
        "true",
    ),
    "remove an option": (
        [SchemaChange.remove_option("file.compression")],
        lambda s: s.options.get("file.compression"),
        None,
    ),
    "comment": ([SchemaChange.update_comment("what it holds")], lambda s: s.comment, "what it holds"),
    "many": (
        [
            SchemaChange.rename_column("text", "words"),
            SchemaChange.add_column("x", "INT"),
            SchemaChange.set_option("write-only", "true"),
            SchemaChange.update_comment("c"),
        ],
        lambda s: (s.field_names, s.options.get("write-only"), s.comment),
        (("id", "day", "n", "words", "x"), "true", "c"),
    ),
}


def newest_id(table: FileStoreTable) -> int:
    """Return the id of the newest snapshot."""
    newest = table.snapshot()
    assert newest is not None
    return newest.id


def together(calls: Sequence[Callable[[], object]]) -> None:
    """Call functions in threads of their own, and raise the first error of any."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            start.wait()
            call()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class NamesContract:
    """The tests of databases, tables and schemas. Fixture: `catalog`."""

    stores_properties: ClassVar[bool] = True  # of databases
    renames_branches: ClassVar[bool] = True
    renames_tags: ClassVar[bool] = True
    odd_names: ClassVar[Sequence[str]] = ODD_NAMES  # of tables

    @pytest.fixture
    def db(self, catalog: Catalog) -> InDatabase:
        """Make a database."""
        return InDatabase(catalog)

    # -- databases

    def test_existence(self, db: InDatabase) -> None:
        """Names of databases, tables, branches and system tables exist or not, without an error."""
        table = db.create()
        table.create_branch("b")
        known: list[str | Identifier] = [db("t"), db("t$branch_b"), db("t$snapshots"), db("t").get_full_name()]
        assert all(db.catalog.table_exists(name) for name in known)
        unknown: list[str | Identifier] = [db("other"), db("t$branch_c"), db("other$snapshots"), f"no{db.name}.t"]
        assert not any(db.catalog.table_exists(name) for name in unknown)
        assert db.catalog.database_exists(db.name)
        assert not db.catalog.database_exists(f"no{db.name}")

    def test_databases_are_made_listed_and_dropped(self, catalog: Catalog) -> None:
        """Names that are taken or missing are errors, unless the call says otherwise."""
        name = f"c{uuid.uuid4().hex[:10]}"
        assert name not in catalog.list_databases()
        catalog.create_database(name)
        with pytest.raises(DatabaseAlreadyExistException):
            catalog.create_database(name)
        catalog.create_database(name, ignore_if_exists=True)
        assert name in catalog.list_databases()
        assert catalog.get_database(name).name == name
        assert catalog.list_tables(name) == []
        catalog.drop_database(name)
        for missing in (catalog.drop_database, catalog.get_database, catalog.list_tables):
            with pytest.raises(DatabaseNotExistException):
                missing(name)
        catalog.drop_database(name, ignore_if_not_exists=True)
        assert name not in catalog.list_databases()

    def test_properties_of_databases(self, catalog: Catalog) -> None:
        """They are stored and returned, where the catalog stores any."""
        if not self.stores_properties:
            pytest.skip("the catalog stores no properties of databases")
        name = f"c{uuid.uuid4().hex[:10]}"
        catalog.create_database(name, properties={"owner": "me", "team": "ü"})
        options = catalog.get_database(name).options
        assert (options["owner"], options["team"]) == ("me", "ü")

    def test_a_database_with_tables_is_dropped_only_with_cascade(self, db: InDatabase) -> None:
        """The error names the tables; a database made again is empty."""
        db.written()
        with pytest.raises(DatabaseNotEmptyException, match="cascade"):
            db.catalog.drop_database(db.name)
        assert ids_of(db.catalog.get_table(db("t"))) == [1]
        db.catalog.drop_database(db.name, cascade=True)
        with pytest.raises(DatabaseNotExistException):
            db.catalog.get_table(db("t"))
        db.catalog.create_database(db.name)
        assert db.catalog.list_tables(db.name) == []
        with pytest.raises(TableNotExistException):
            db.catalog.get_table(db("t"))

    def test_databases_come_in_pages(self, catalog: Catalog) -> None:
        """Pages hold every name once; a pattern selects some."""
        start = f"c{uuid.uuid4().hex[:10]}"
        names = [f"{start}_{letter}" for letter in "abcde"]
        for name in names:
            catalog.create_database(name)
        found, token = [], None
        for _ in range(4):
            page = catalog.list_databases_paged(2, token, f"{start}*")
            found += page.elements
            token = page.next_page_token
            if token is None:
                break
        assert (sorted(found), token) == (names, None)

    @pytest.mark.parametrize("name", REFUSED_NAMES)
    def test_names_that_cannot_be_are_refused(self, db: InDatabase, name: str) -> None:
        """Before anything is sent: dropping the table `..` must not drop a database."""
        db.written()
        for verb in (db.catalog.create_database, db.catalog.drop_database):
            with pytest.raises(InvalidInputError):
                verb(name)
        for call in (lambda: db.catalog.drop_table(db(name)), lambda: db.create(name)):
            with pytest.raises(InvalidInputError):
                call()
        with pytest.raises(InvalidInputError):
            db.catalog.rename_table(db("t"), db(name))
        assert ids_of(db.catalog.get_table(db("t"))) == [1]

    # -- tables

    def test_tables_are_made_listed_and_dropped(self, db: InDatabase) -> None:
        """A table has the columns, keys, options and comment that it was made with."""
        columns = pa.schema({"id": pa.int32(), "day": pa.date32(), "tags": pa.list_(pa.string())})
        schema = Schema.from_pyarrow_schema(
            columns, ["day"], ["day", "id"], {"bucket": 2, "file.format": "orc"}, comment="what it holds"
        )
        db.catalog.create_table(db("t"), schema)
        table = db.catalog.get_table(f"{db.name}.t")
        assert table.field_names == ["id", "day", "tags"]
        assert (table.primary_keys, table.partition_keys) == (["day", "id"], ["day"])
        assert dict(table.schema.options) == {"bucket": "2", "file.format": "orc"}
        assert (table.comment(), table.schema.id, table.snapshot()) == ("what it holds", 0, None)
        assert read_table(table).num_rows == 0
        with pytest.raises(TableAlreadyExistException):
            db.catalog.create_table(db("t"), pa.schema({"x": pa.int32()}))
        db.catalog.create_table(db("t"), pa.schema({"x": pa.int32()}), ignore_if_exists=True)
        assert db.catalog.get_table(db("t")).field_names == ["id", "day", "tags"]
        assert db.catalog.list_tables(db.name) == ["t"]
        db.catalog.drop_table(db("t"))
        with pytest.raises(TableNotExistException):
            db.catalog.drop_table(db("t"))
        db.catalog.drop_table(db("t"), ignore_if_not_exists=True)
        assert db.catalog.list_tables(db.name) == []

    def test_tables_come_in_pages(self, db: InDatabase) -> None:
        """Pages hold every name once, also that of a table with branches; a pattern selects some."""
        for name in ("a1", "a2", "a3", "b1"):
            db.catalog.create_table(db(name), COLUMNS)
        db.catalog.create_branch(db("a2"), "b")
        assert db.catalog.list_tables(db.name) == ["a1", "a2", "a3", "b1"]
        found, token = [], None
        for _ in range(6):
            page = db.catalog.list_tables_paged(db.name, 2, token)
            found += page.elements
            token = page.next_page_token
            if token is None:
                break
        assert token is None
        assert set(found) == {"a1", "a2", "a3", "b1"}
        assert sorted(set(db.catalog.list_tables_paged(db.name, table_name_pattern="a*").elements)) == [
            "a1",
            "a2",
            "a3",
        ]

    def test_odd_names_of_tables(self, db: InDatabase) -> None:
        """They are written, read, renamed and dropped like others."""
        for name in self.odd_names:
            table = db.create(name)
            write_table(rows_of(1, 2), table)
            assert ids_of(db.catalog.get_table(db(name))) == [1, 2]
        assert db.catalog.list_tables(db.name) == sorted(self.odd_names)
        first, *rest = self.odd_names
        db.catalog.rename_table(db(first), db(f"{first}2"))
        assert ids_of(db.catalog.get_table(db(f"{first}2"))) == [1, 2]
        for name in (f"{first}2", *rest):
            db.catalog.drop_table(db(name))
        assert db.catalog.list_tables(db.name) == []

    def test_odd_names_of_databases(self, catalog: Catalog) -> None:
        """Blanks, percent signs and letters beyond ASCII are part of the name."""
        for start in ("x y", "50%", "ü+", "~a*"):
            name = f"{start}{uuid.uuid4().hex[:10]}"
            catalog.create_database(name)
            catalog.create_table(Identifier(name, "t"), COLUMNS)
            write_table(rows_of(1), catalog.get_table(Identifier(name, "t")))
            assert name in catalog.list_databases()
            assert ids_of(catalog.get_table(Identifier(name, "t"))) == [1]
            catalog.drop_database(name, cascade=True)
            assert name not in catalog.list_databases()

    def test_tables_of_a_database_that_does_not_exist(self, catalog: Catalog) -> None:
        """The error says that it is the database."""
        name = Identifier(f"c{uuid.uuid4().hex[:10]}", "t")
        for call in (
            lambda: catalog.create_table(name, COLUMNS),
            lambda: catalog.get_table(name),
            lambda: catalog.alter_table(name, SchemaChange.drop_column("n")),
        ):
            with pytest.raises(DatabaseNotExistException):
                call()

    def test_rename(self, db: InDatabase) -> None:
        """The rows, tags and later commits are those of the table, whatever its name."""
        table = db.written(commits=2)
        table.create_tag("one", 1)
        other = InDatabase(db.catalog)
        db.catalog.rename_table(db("t"), other("u"))
        assert (db.catalog.list_tables(db.name), db.catalog.list_tables(other.name)) == ([], ["u"])
        moved = db.catalog.get_table(other("u"))
        assert (ids_of(moved), ids_of(moved, tag="one")) == ([1, 2], [1])
        write_table(rows_of(3), moved)
        assert ids_of(db.catalog.get_table(other("u"))) == [1, 2, 3]
        with pytest.raises(TableNotExistException):
            db.catalog.rename_table(db("t"), db("v"))
        db.catalog.rename_table(db("t"), db("v"), ignore_if_not_exists=True)
        db.create("w")
        with pytest.raises(TableAlreadyExistException):
            db.catalog.rename_table(db("w"), other("u"))
        assert ids_of(db.catalog.get_table(other("u"))) == [1, 2, 3]

    def test_a_handle_of_a_dropped_table_is_refused(self, db: InDatabase) -> None:
        """Nothing is written to the place of a table that is gone, nor to another one that has its name."""
        table = db.written()
        builder = table.new_batch_write_builder()
        with builder.new_write() as write:
            messages = write.write_arrow(rows_of(2)).prepare_commit()
        db.catalog.drop_table(db("t"))
        with pytest.raises(TableNotExistException):
            write_table(rows_of(3), table)
        again = db.create()
        calls: list[Callable[[], object]] = [
            lambda: write_table(rows_of(3), table),
            lambda: builder.new_commit().commit(messages),
            lambda: read_table(table),
            lambda: table.create_tag("x"),
            lambda: table.compact(full=True),
        ]
        for call in calls:
            with pytest.raises(LakewrightError):
                call()
        assert ids_of(again) == []
        write_table(rows_of(9), again)
        assert ids_of(db.catalog.get_table(db("t"))) == [9]
        assert again.list_tags() == []

    def test_of_many_that_make_one_table_one_wins(self, db: InDatabase) -> None:
        """The others learn that it exists, and all see the table of the winner."""
        outcomes: list[str] = []

        def make(number: int) -> None:
            try:
                db.catalog.create_table(db("t"), pa.schema({f"c{number}": pa.int64()}))
                outcomes.append(f"c{number}")
            except TableAlreadyExistException:
                outcomes.append("")

        together([lambda number=number: make(number) for number in range(4)])  # type: ignore[misc]
        (winner,) = [outcome for outcome in outcomes if outcome]
        assert db.catalog.get_table(db("t")).field_names == [winner]
        assert len(outcomes) == 4

    # -- schemas

    @pytest.mark.parametrize("name", CHANGES)
    def test_changes_of_the_schema(self, db: InDatabase, name: str) -> None:
        """One call makes one new schema; old and new rows are read with it."""
        changes, look, expected = CHANGES[name]
        table = db.create(**{"file.compression": "zstd", _NOT_NULL: "false"})
        write_table(rows_of(1), table)
        db.catalog.alter_table(db("t"), changes)
        changed = db.catalog.get_table(db("t"))
        assert look(changed.schema) == expected
        assert changed.schema.id == 1
        write_table(read_table(changed), changed)
        assert ids_of(changed) == [1, 1]

    def test_changes_are_all_or_none(self, db: InDatabase) -> None:
        """A change that cannot be made stops those before it."""
        db.written()
        for change, error in (
            (SchemaChange.drop_column("none"), ColumnNotExistException),
            (SchemaChange.add_column("id", "INT"), ColumnAlreadyExistException),
            (SchemaChange.set_option("bucket", "3"), LakewrightError),
        ):
            with pytest.raises(error):
                db.catalog.alter_table(db("t"), [SchemaChange.add_column("x", "INT"), change])
        table = db.catalog.get_table(db("t"))
        assert (table.schema.id, table.field_names) == (0, COLUMNS.names)
        with pytest.raises(TableNotExistException):
            db.catalog.alter_table(db("none"), SchemaChange.add_column("x", "INT"))
        db.catalog.alter_table(db("none"), SchemaChange.add_column("x", "INT"), ignore_if_not_exists=True)

    def test_changes_that_lose_values_are_refused(self, db: InDatabase) -> None:
        """The rows are looked at before the catalog is asked."""
        table = db.create(**{_NOT_NULL: "false"})
        write_table(arrow([(2, "2026-01-01", None, "text")]), table)
        for change in (
            SchemaChange.update_column_type("text", "INT"),
            SchemaChange.update_column_nullability("n", new_nullability=False),
        ):
            with pytest.raises(InvalidInputError):
                db.catalog.alter_table(db("t"), change)
        assert db.catalog.get_table(db("t")).schema.id == 0
        db.catalog.alter_table(db("t"), SchemaChange.update_column_type("n", "INT", allow_lossy=True))
        assert db.catalog.get_table(db("t")).schema.id == 1

    def test_changes_that_race_are_all_made(self, db: InDatabase) -> None:
        """Each is applied to the schema that the other one left."""
        db.written()
        adds = [SchemaChange.add_column(f"x{number}", "INT") for number in range(4)]
        together([lambda add=add: db.catalog.alter_table(db("t"), add) for add in adds])  # type: ignore[misc]
        schema = db.catalog.get_table(db("t")).schema
        assert schema.id == 4
        assert set(schema.field_names) == {*COLUMNS.names, "x0", "x1", "x2", "x3"}
        assert len({field.id for field in schema.fields}) == 8

    def test_an_older_handle_sees_a_newer_schema(self, db: InDatabase) -> None:
        """It writes and reads with the newest columns."""
        table = db.written()
        db.catalog.alter_table(db("t"), SchemaChange.add_column("x", "INT"))
        write_table(rows_of(2).append_column("x", pa.array([5], pa.int32())), table)
        fresh = db.catalog.get_table(db("t"))
        assert sorted(read_table(fresh)["x"].to_pylist(), key=repr) == [5, None]
