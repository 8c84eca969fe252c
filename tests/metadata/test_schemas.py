from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lakewright.errors import CommitContentionError, CommitUnknownError, CorruptTableError, NotFoundError
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.spec.schema import Schema, SchemaChange, new_table_schema
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout

INT = AtomicType("INT")
ADD_N = SchemaChange.add_column("n", INT)


def first_schema() -> TableSchema:
    return new_table_schema(Schema([DataField(0, "a", INT)]), time_millis=3)


def schemas_at(path: Path) -> SchemaFiles:
    return SchemaFiles(LocalStorage(durable=False), Layout(str(path)))


@pytest.fixture
def schemas(tmp_path: Path) -> SchemaFiles:
    made = schemas_at(tmp_path / "t")
    assert made.create(first_schema())
    return made


def evolve(schemas: SchemaFiles, *changes: SchemaChange, attempts: int = 20) -> TableSchema:
    return schemas.evolve(changes, has_snapshot=True, time_millis=5, attempts=attempts)


def test_a_missing_table_has_no_schemas(tmp_path: Path) -> None:
    schemas = schemas_at(tmp_path / "none")
    assert schemas.ids() == []
    assert schemas.latest() is None
    with pytest.raises(NotFoundError, match="no schema 4") as caught:
        schemas.get(4)
    assert caught.value.schema_id == 4
    with pytest.raises(NotFoundError, match="no table"):
        evolve(schemas, ADD_N)


def test_a_schema_is_created_once(schemas: SchemaFiles) -> None:
    assert not schemas.create(replace(first_schema(), comment="late"))
    assert schemas.get(0) == first_schema()


def test_the_newest_is_the_highest_number_and_strange_names_do_not_count(schemas: SchemaFiles) -> None:
    directory = Path(schemas.layout.schema_directory)
    for number in (2, 10, 9):
        assert schemas.create(replace(first_schema(), id=number))
    for name in ("schema-11.tmp-x", ".schema-12.y.tmp", "schema-", "schema-x", "schema--1"):
        (directory / name).write_text("{")
    assert schemas.ids() == [0, 2, 9, 10]
    latest = schemas.latest()
    assert latest is not None
    assert latest.id == 10


def test_a_schema_file_that_lies_about_its_number(schemas: SchemaFiles) -> None:
    path = Path(schemas.layout.schema_file(1))
    path.write_text(first_schema().to_json())
    with pytest.raises(CorruptTableError, match="says that it is schema 0") as caught:
        schemas.get(1)
    assert caught.value.path == str(path)


def test_a_damaged_schema_file(schemas: SchemaFiles) -> None:
    path = Path(schemas.layout.schema_file(0))
    path.write_text(path.read_text().replace('"a"', '"b"'))
    with pytest.raises(CorruptTableError, match="checksum"):
        schemas.get(0)


def test_changes_write_the_next_schema(schemas: SchemaFiles) -> None:
    changed = evolve(schemas, ADD_N)
    assert (changed.id, changed.time_millis, changed.field_names) == (1, 5, ("a", "n"))
    assert schemas.latest() == changed
    assert schemas.get(0) == first_schema()


def test_changes_that_change_nothing_write_nothing(schemas: SchemaFiles) -> None:
    assert evolve(schemas, SchemaChange.remove_option("x")) == first_schema()
    assert schemas.ids() == [0]


def test_branches_have_schemas_of_their_own(schemas: SchemaFiles) -> None:
    branch = SchemaFiles(schemas.storage, schemas.layout.for_branch("dev"))
    assert branch.latest() is None
    assert branch.create(first_schema())
    evolve(branch, ADD_N)
    assert (branch.ids(), schemas.ids()) == ([0, 1], [0])


@dataclass(frozen=True)
class Rigged(LocalStorage):
    """A local disk where something happens around each `create`, as often as it is told."""

    events: list[str] = field(default_factory=list)

    def create(self, path: str, data: bytes) -> bool:
        event = self.events.pop() if self.events else ""
        if event == "rival":
            rival = TableSchema.from_json(data, path=path)
            super().create(
                path, replace(rival, fields=rival.fields[:-1], comment=f"rival {rival.id}").to_json().encode()
            )
        if event == "lost request":
            raise TimeoutError
        done = super().create(path, data)
        if event == "lost reply":
            raise TimeoutError
        return done and event != "repeated request"


def rigged(schemas: SchemaFiles, *events: str) -> SchemaFiles:
    return SchemaFiles(Rigged(durable=False, events=list(events)), schemas.layout)


def test_a_lost_race_is_run_again_on_the_schema_of_the_winner(schemas: SchemaFiles) -> None:
    changed = evolve(rigged(schemas, "rival", "rival"), ADD_N)
    assert (changed.id, changed.comment, changed.field_names) == (3, "rival 2", ("a", "n"))
    assert [schema.comment for schema in schemas.all()] == [None, "rival 1", "rival 2", "rival 2"]


def test_races_lost_too_often_end_in_contention(schemas: SchemaFiles) -> None:
    with pytest.raises(CommitContentionError) as caught:
        evolve(rigged(schemas, *["rival"] * 5), ADD_N, attempts=3)
    assert caught.value.attempts == 3
    assert schemas.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize("event", ["lost reply", "repeated request"])
def test_a_change_that_landed_counts_even_if_the_reply_did_not(schemas: SchemaFiles, event: str) -> None:
    assert evolve(rigged(schemas, event), ADD_N).id == 1
    assert schemas.ids() == [0, 1]


def test_a_change_that_may_have_landed_is_reported_as_unknown(schemas: SchemaFiles) -> None:
    with pytest.raises(CommitUnknownError) as caught:
        evolve(rigged(schemas, "lost request"), ADD_N)
    assert caught.value.schema_id == 1


def test_racing_changes_all_happen_once(schemas: SchemaFiles) -> None:
    changes = [SchemaChange.add_column(f"c{number}", INT) for number in range(8)]
    threads = [threading.Thread(target=evolve, args=(schemas, change)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latest = schemas.latest()
    assert latest is not None
    assert sorted(latest.field_names) == ["a", *(f"c{number}" for number in range(8))]
    assert schemas.ids() == list(range(9))
    assert sorted(column.id for column in latest.fields) == list(range(9))
