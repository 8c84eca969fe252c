"""Values and their JSON: every change of a schema, schemas, tags."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewright.catalog.rest_json import (
    Unreadable,
    change_to_json,
    schema_from_json,
    schema_to_json,
    snapshot_from_json,
    snapshot_to_json,
    tag_from_json,
)
from lakewright.errors import UnsupportedError
from lakewright.spec import schema
from lakewright.spec.schema import Move, Schema, SchemaChange, new_table_schema
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import AtomicType, DataField, RowType

C = SchemaChange
CHANGES: list[tuple[SchemaChange, dict[str, object]]] = [
    (C.set_option("k", 1), {"action": "setOption", "key": "k", "value": "1"}),
    (C.remove_option("k"), {"action": "removeOption", "key": "k"}),
    (C.update_comment("c"), {"action": "updateComment", "comment": "c"}),
    (C.update_comment(None), {"action": "updateComment", "comment": None}),
    (
        C.add_column(["r", "a"], "INT", "c", Move.after("a", "b")),
        {
            "action": "addColumn",
            "fieldNames": ["r", "a"],
            "dataType": "INT",
            "comment": "c",
            "move": {"fieldName": "a", "referenceFieldName": "b", "type": "AFTER"},
        },
    ),
    (
        C.add_column("a", "INT"),
        {"action": "addColumn", "fieldNames": ["a"], "dataType": "INT", "comment": None, "move": None},
    ),
    (C.rename_column("a", "b"), {"action": "renameColumn", "fieldNames": ["a"], "newName": "b"}),
    (C.drop_column("a"), {"action": "dropColumn", "fieldNames": ["a"]}),
    (
        C.update_column_type("a", "BIGINT", keep_nullability=True),
        {"action": "updateColumnType", "fieldNames": ["a"], "newDataType": "BIGINT", "keepNullability": True},
    ),
    (
        C.update_column_nullability("a", new_nullability=False),
        {"action": "updateColumnNullability", "fieldNames": ["a"], "newNullability": False},
    ),
    (C.update_column_comment("a", None), {"action": "updateColumnComment", "fieldNames": ["a"], "newComment": None}),
    (
        C.update_column_default_value("a", "1"),
        {"action": "updateColumnDefaultValue", "fieldNames": ["a"], "newDefaultValue": "1"},
    ),
    (
        C.update_column_position(Move.first("a")),
        {"action": "updateColumnPosition", "move": {"fieldName": "a", "referenceFieldName": None, "type": "FIRST"}},
    ),
    (C.drop_primary_key(), {"action": "dropPrimaryKey"}),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=lambda it: type(it).__name__)
def test_a_change_is_sent_as_an_action(change: SchemaChange, expected: dict[str, object]) -> None:
    assert change_to_json(change) == expected


def test_every_change_has_an_action() -> None:
    kinds = {kind for kind in vars(schema).values() if isinstance(kind, type) and issubclass(kind, SchemaChange)}
    assert {type(change) for change, _ in CHANGES} == kinds - {SchemaChange}
    with pytest.raises(UnsupportedError, match="SchemaChange"):
        change_to_json(SchemaChange())


def test_a_schema_comes_back_with_its_ids() -> None:
    row = RowType(nullable=True, fields=[DataField(0, "x", AtomicType("INT"))])
    declared = Schema([DataField(0, "a", AtomicType("INT")), DataField(1, "r", row)], primary_keys=["a"])
    created = new_table_schema(declared, time_millis=0)
    again = schema_from_json(schema_to_json(created))
    assert (again.fields, again.primary_keys, again.comment) == (created.fields, ("a",), None)
    with pytest.raises(Unreadable):
        schema_from_json({"fields": []})


def test_a_snapshot_is_sent_without_a_checksum_and_members_of_others_are_ignored() -> None:
    snapshot = Snapshot(1, 0, "a", "b", "u", 3, CommitKind.COMPACT, 5, properties={"k": "v"}, operation="X")
    members = snapshot_to_json(snapshot)
    assert "checksum" not in members
    assert members["commitIdentifier"] == 3
    assert snapshot_from_json({**members, "future": [1]}) == snapshot  # type: ignore[dict-item]
    with pytest.raises(Unreadable, match="commitKind"):
        snapshot_from_json({**members, "commitKind": "OTHER"})  # type: ignore[dict-item]


def test_a_tag_may_be_kept_for_ever() -> None:
    members = snapshot_to_json(Snapshot(1, 0, "a", "b", "u", 3, CommitKind.APPEND, 5))
    tag = tag_from_json({"tagName": "v", "snapshot": members, "tagCreateTime": None, "tagTimeRetained": None})  # type: ignore[dict-item]
    assert (tag.name, tag.create_time, tag.time_retained) == ("v", None, None)
    kept = tag_from_json({"tagName": "v", "snapshot": members, "tagCreateTime": 1500, "tagTimeRetained": "PT0.5S"})  # type: ignore[dict-item]
    assert kept.time_retained == timedelta(milliseconds=500)
    assert kept.create_time is not None
    assert kept.create_time.timestamp() == 1.5
