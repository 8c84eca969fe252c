"""UPDATE, DELETE and MERGE as one query: names, scopes, casts and what workers are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.dml.change_plan import CLAUSE, value_name
from lakewright.dml.matching import Pairs
from lakewright.errors import (
    ColumnNotExistException,
    InvalidInputError,
    LakewrightError,
    SQLSyntaxError,
    UnsupportedError,
)
from lakewright.metadata.table_store import TableStore
from lakewright.spec.arrow_types import from_arrow_type
from lakewright.spec.types import AtomicType, DataField
from lakewright.statements.change_query import ChangeQuery, RowSource, Text, plan_delete, plan_merge, plan_update
from lakewright.statements.parser import parse_statement
from lakewright.statements.sql_text import Fragment
from lakewright.statements.statements import Delete, MergeInto, Update
from lakewright.statements.store_assignment import StoreAssignment

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
BIG = pa.struct([("a", pa.int64()), ("b", pa.int32())])
COLUMNS = pa.schema({"id": pa.int64(), "v": pa.int32(), "s": STRUCT, "n": pa.string()})


def _store(path: Path, columns: pa.Schema = COLUMNS, **arguments: object) -> TableStore:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d")
    schema = lw.Schema.from_pyarrow_schema(columns, **arguments)  # type: ignore[arg-type]
    catalog.create_table("d.t", schema)
    return catalog.get_table("d.t").store


def _field(column: str | pa.DataType) -> DataField:
    return DataField(0, "c", AtomicType(column) if isinstance(column, str) else from_arrow_type(column))


def _update(store: TableStore, text: str) -> ChangeQuery:
    statement = parse_statement(text)
    assert isinstance(statement, Update)
    return plan_update(store, statement)


def _delete(store: TableStore, text: str) -> ChangeQuery:
    statement = parse_statement(text)
    assert isinstance(statement, Delete)
    return plan_delete(store, statement)


def _merge(store: TableStore, text: str, *columns: str) -> ChangeQuery:
    statement = parse_statement(text)
    assert isinstance(statement, MergeInto)
    return plan_merge(store, statement, columns)


def _written(part: str | Fragment) -> str:
    return part if isinstance(part, str) else part.text


def _sql(plan: ChangeQuery, text: Text) -> str:
    return " ".join(plan.write(text, _written, lambda relation: relation.name).split())


def test_a_delete_reads_the_columns_of_its_condition(tmp_path: Path) -> None:
    plan = _delete(_store(tmp_path), "DELETE FROM d.t x WHERE X.V > (SELECT max(id) FROM u)")
    assert plan.reads == ("id", "v")
    sql = _sql(plan, plan.query([]))
    assert "`x`._lw_group AS `group`, `x`._lw_position AS `position`" in sql
    assert sql.endswith(" AS `x` WHERE (X.V > (SELECT max(id) FROM u))")
    assert plan.decided.deletes


def test_an_update_resolves_names_and_casts_values(tmp_path: Path) -> None:
    plan = _update(_store(tmp_path), "UPDATE d.t SET t.V = d.t.v + 1, n = DEFAULT WHERE `d`.t.id = 1")
    assert (plan.reads, plan.assigned) == (("id", "v"), ("v", "n"))
    text, values = plan.type_query()
    assert [value.field.name for value in values] == ["v"]
    assert "(`t`.v + 1) AS _lw_v0 FROM TARGET AS `t` WHERE (`t`.id = 1)" in _sql(plan, text)
    sql = _sql(plan, plan.query([pa.int64()]))
    assert "CAST((`t`.v + 1) AS INT) AS _lw_v0, CAST(NULL AS STRING) AS _lw_v1" in sql
    assert "raise_error" in _sql(plan, plan.query([pa.int64()], casts_fail=False))
    assert "CAST(" not in _sql(plan, plan.query([pa.int32()])).split("_lw_v0")[0]


def test_a_field_of_a_struct_is_set_by_building_the_struct(tmp_path: Path) -> None:
    plan = _update(_store(tmp_path), "UPDATE t SET s.A = 3")
    assert (plan.reads, plan.assigned) == (("s",), ("s",))
    assert "named_struct('a', (3), 'b', `t`.`s`.`b`) AS _lw_v0" in _sql(plan, plan.query([STRUCT]))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("UPDATE t SET nn = 1", ColumnNotExistException, "did you mean 'n'"),
        ("UPDATE t SET s.x = 1", ColumnNotExistException, r"no column 's.x'"),
        ("UPDATE t SET v = 1, V = 2", SQLSyntaxError, "v is assigned twice"),
        ("UPDATE t SET s = null, s.a = 2", SQLSyntaxError, "assigned twice"),
    ],
)
def test_names_that_do_not_fit_are_errors(tmp_path: Path, text: str, kind: type[LakewrightError], message: str) -> None:
    with pytest.raises(kind, match=message):
        _update(_store(tmp_path), text)


def test_a_merge_is_one_join_whose_clauses_are_numbered(tmp_path: Path) -> None:
    plan = _merge(
        _store(tmp_path),
        """MERGE INTO t USING x s ON t.id = s.id WHEN MATCHED AND s.v > 1 THEN UPDATE SET v = s.v, id = s.id
        WHEN MATCHED THEN UPDATE SET n = 'x' WHEN NOT MATCHED AND v > 3 THEN INSERT (id, v) VALUES (id, s.v)
        WHEN NOT MATCHED BY SOURCE AND n = 'y' THEN DELETE""",
        "ID",
        "v",
    )
    assert plan.equal == (("id", "ID"),)
    assert (plan.assigned, plan.inserted, plan.decided.is_delete) == (
        ("v", "n"),
        ("id", "v"),
        (False, False, False, True),
    )
    sql = _sql(plan, plan.query([pa.int32(), pa.string(), pa.int64(), pa.int32()]))
    assert "FROM TARGET AS `t` FULL JOIN (SELECT *, true AS _lw_source FROM SOURCE) AS `s` ON (t.id = s.id)" in sql
    assert "WHEN `t`._lw_position IS NULL AND (`s`.v > 3 ) THEN 2" in sql
    assert "WHEN 1 THEN `t`.`v` WHEN 2 THEN (s.v) WHEN 3 THEN NULL END AS _lw_v1" in sql
    assert "WHEN 2 THEN (`s`.id ) WHEN 3" in sql


@pytest.mark.parametrize(
    ("clauses", "join"),
    [
        ("WHEN MATCHED THEN DELETE", "TARGET AS `t` INNER JOIN"),
        ("WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", "AS `s` LEFT ANTI JOIN TARGET"),
        ("WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", "AS `s` LEFT JOIN TARGET"),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", "TARGET AS `t` LEFT JOIN"),
    ],
)
def test_the_join_follows_from_the_clauses(tmp_path: Path, clauses: str, join: str) -> None:
    plan = _merge(_store(tmp_path), f"MERGE INTO t USING x s ON t.id = s.id {clauses}", "id")
    assert join in _sql(plan, plan.query([pa.int64()] * len(plan.type_query()[1])))


def test_an_alias_goes_before_a_column_of_that_name(tmp_path: Path) -> None:
    text = "MERGE INTO t USING x s ON t.id = s.id WHEN NOT MATCHED AND s.v > 1 THEN INSERT (id, v) VALUES (s.id, s.s.a)"
    plan = _merge(_store(tmp_path), text, "id", "v", "s")
    sql = _sql(plan, plan.query([pa.int64(), pa.int32()]))
    assert "(s.v > 1)" in sql
    assert "(s.s.a)" in sql


def test_a_star_needs_every_column(tmp_path: Path) -> None:
    store = _store(tmp_path)
    text = "MERGE INTO t USING x s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(InvalidInputError, match="lacks 's'"):
        _merge(store, text, "id", "v", "n")
    plan = _merge(store, text, "N", "S", "V", "ID")
    assert plan.assigned == ("v", "s", "n")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE", SQLSyntaxError, "both called 't'"),
        ("MERGE INTO t USING s ON rand() > t.v WHEN MATCHED THEN DELETE", UnsupportedError, "rand"),
        ("MERGE INTO t USING s ON true WHEN MATCHED AND uuid() = t.n THEN DELETE", UnsupportedError, "uuid"),
    ],
)
def test_merges_that_cannot_be(tmp_path: Path, text: str, kind: type[LakewrightError], message: str) -> None:
    with pytest.raises(kind, match=message):
        _merge(_store(tmp_path), text, "id")


def test_an_insert_needs_values_for_required_columns(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())])
    store = _store(tmp_path, columns)
    with pytest.raises(InvalidInputError, match="no value to 'id'"):
        _merge(store, "MERGE INTO t USING s ON t.v = s.v WHEN NOT MATCHED THEN INSERT (v) VALUES (s.v)", "v")


def test_a_key_column_is_not_updated_but_may_be_set_to_what_it_is(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int32())])
    store = _store(tmp_path, columns, primary_keys=["id"], options={"bucket": "1"})
    with pytest.raises(LakewrightError, match="id"):
        _update(store, "UPDATE t SET id = id + 1")
    text = "MERGE INTO t USING s ON s.id = t.id WHEN MATCHED THEN UPDATE SET *"
    assert _merge(store, text, "id", "v").assigned == ("v",)


@pytest.mark.parametrize(
    ("given", "column", "fits"),
    [
        (pa.int64(), "TINYINT", True),
        (pa.float64(), "INT", True),
        (pa.int32(), "STRING", True),
        (pa.null(), "INT", True),
        (pa.date32(), "TIMESTAMP(6)", True),
        (pa.decimal128(20, 2), "DECIMAL(10, 2)", True),
        (pa.string(), "INT", False),
        (pa.string(), "DATE", False),
        (pa.bool_(), "INT", False),
        (pa.int32(), "TIMESTAMP(6)", False),
        (pa.int32(), "BOOLEAN", False),
        (pa.list_(pa.int32()), "INT", False),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), True),
        (pa.list_(pa.string()), pa.list_(pa.int64()), False),
        (pa.struct([("b", pa.int32()), ("a", pa.int32())]), BIG, True),
        (pa.struct([("a", pa.int32())]), BIG, False),
    ],
)
def test_types_are_assigned_by_the_rules_of_ansi(given: pa.DataType, column: str | pa.DataType, *, fits: bool) -> None:
    field = _field(column)
    if fits:
        assert "x" in StoreAssignment("t").value("x", given, field, None)
        return
    with pytest.raises(InvalidInputError, match="the column 'c'"):
        StoreAssignment("t").value("x", given, field, None)


def test_structs_are_assigned_by_name_or_by_place() -> None:
    field = _field(BIG)
    given = pa.struct([("b", pa.int32()), ("a", pa.int32())])
    assert "named_struct('a', x.`a`, 'b', x.`b`)" in StoreAssignment("t").value("x", given, field, None)
    assert "named_struct" not in StoreAssignment("t", by_position=True).value("x", given, field, None)


def test_a_decision_is_read_from_rows_and_ambiguity_is_refused(tmp_path: Path) -> None:
    store = _store(tmp_path)
    plan = _merge(
        store,
        """MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND s.v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)""",
        "id",
        "v",
    ).decided
    ids, v = value_name(plan.values["id"]), value_name(plan.values["v"])
    rows = pa.table({CLAUSE: pa.array([0, 1, 1], pa.int32()), ids: [None, None, None], v: [None, 7, 8]})
    found = plan.decide(pa.table({}), rows, Pairs(np.array([2, 5, 6]), np.arange(3)))
    assert (found.deleted.tolist(), found.updated.tolist()) == ([2], [5, 6])
    assert found.values is not None
    assert found.values.to_pydict() == {"v": [7, 8]}
    with pytest.raises(InvalidInputError, match="matched by 2 rows"):
        plan.decide(pa.table({}), rows, Pairs(np.array([2, 5, 5]), np.arange(3)))
    new = plan.inserts(pa.table({CLAUSE: pa.array([2], pa.int32()), ids: [1], v: [2]}), np.arange(1))
    assert new is not None
    assert new.to_pylist() == [{"id": 1, "v": 2, "s": None, "n": None}]
    single = _merge(store, "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE", "id").decided
    rows = pa.table({CLAUSE: pa.array([0, 0], pa.int32())})
    found = single.decide(pa.table({}), rows, Pairs(np.array([3, 3]), np.arange(2)))
    assert found.deleted.tolist() == [3]


def test_relations_are_named_by_the_engine(tmp_path: Path) -> None:
    plan = _delete(_store(tmp_path), "DELETE FROM t")
    named = plan.write(plan.query([]), _written, {RowSource.TARGET: "{target}"}.__getitem__)
    assert named.endswith("FROM {target} AS `t`")
