"""Every system table of Java: the same columns, types and nullability, and the same rows where both can know them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from support.java import Java

# Columns that later versions of Java have behind those of 1.4.2.
LATER = {
    "$snapshots": ["writer_version"],
    "$partitions": ["total_buckets", "done", "deleted_record_count"],
    "$table_indexes": ["row_range_start", "row_range_end", "index_field_id", "index_field_name"],
}
# What Java does not know where files decide, and we read from the newest snapshot.
OURS_ALONE = {"sys.tables": ["record_count"]}
JAVA_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}")
NAMES = [
    *("$manifests", "$snapshots", "$options", "$schemas", "$partitions", "$buckets", "$audit_log", "$files"),
    *("$file_key_ranges", "$tags", "$branches", "$consumers", "$ro", "$aggregation_fields", "$statistics", "$binlog"),
    *("$table_indexes", "$row_tracking"),
    *("sys.tables", "sys.partitions", "sys.all_table_options", "sys.catalog_options"),
]


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    peer = Java()
    yield peer
    peer.close()


@pytest.fixture(scope="module")
def warehouse(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tables of Java of three kinds: with a key and a changelog, with deletion vectors, and with row ids."""
    path = tmp_path_factory.mktemp("warehouse")
    columns = "k INT NOT NULL,p STRING,v STRING NOT NULL,a BIGINT"
    keyed = ("fields.a.aggregate-function=sum", "fields.v.ignore-retract=true")
    java.ask("make", str(path), "d", "keyed", columns, "p", "p,k", "bucket=1", "changelog-producer=input", *keyed)
    vectors = ("deletion-vectors.enabled=true", "write-only=false")
    java.ask("make", str(path), "d", "vectors", columns, "p", "p,k", "bucket=1", *vectors)
    java.ask("make", str(path), "d", "rows", columns, "p", "", "row-tracking.enabled=true")
    for name in ("keyed", "vectors", "rows"):
        java.ask("write", str(path), "d", name, "+I|1|a|x|5", "+I|2|b|y|6")
        java.ask("write", str(path), "d", name, "+I|3|a|z|")
        java.ask("retaintag", str(path), "d", name, "kept", "PT36H30M")
    for name in ("keyed", "vectors"):
        java.ask("write", str(path), "d", name, "-U|1|a|x|5", "+U|1|a|w|7", "-D|2|b|y|6")
    java.ask("compact", str(path), "d", "vectors")
    java.branch(path, "d.keyed", "dev")
    return path


def full_name(name: str, table: str) -> str:
    return name if name.startswith("sys.") else f"d.{'rows' if name == '$row_tracking' else table}{name}"


def test_no_system_table_of_java_is_missing(java: Java, warehouse: Path) -> None:
    assert java.ask("systemtables", str(warehouse))["names"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_java_s(java: Java, warehouse: Path, name: str) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    for table in ("keyed", "rows"):
        full = full_name(name, table)
        theirs = [tuple(pair) for pair in java.ask("columns", str(warehouse), *full.split("."))["columns"]]
        ours = [(field.name, str(field.type)) for field in catalog.get_table(full).fields]
        assert ours[: len(theirs)] == theirs
        assert [name for name, _ in ours[len(theirs) :]] == LATER.get(name, [])


# Java's batch reads of a log give rows their stored kinds, and deleted rows as long as no compaction has dropped them.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"$audit_log", "$binlog"}))
@pytest.mark.parametrize("table", ["keyed", "vectors", "rows"])
def test_rows_are_java_s(java: Java, warehouse: Path, name: str, table: str) -> None:
    if name.startswith("sys.") and table != "keyed":
        pytest.skip("it is about all tables")
    full = full_name(name, table)
    shown = lw.CatalogFactory.create({"warehouse": str(warehouse)}).get_table(full)
    own_alone = [shown.field_names.index(column) for column in OURS_ALONE.get(name, [])]
    width = len(shown.fields) - len(LATER.get(name, []))
    columns = shown.field_names[:width]
    ours = [_spelled(name, dict(list(row.items())[:width])) for row in lw.read_table(shown).to_pylist()]
    theirs = [_spelled(name, dict(zip(columns, row, strict=True))) for row in java.read(warehouse, full)]
    for row in (*ours, *theirs):
        for at in own_alone:
            row[at] = None
    assert sorted(ours, key=str) == sorted(theirs, key=str)


@pytest.mark.parametrize("name", ["$audit_log", "$binlog"])
def test_changes_in_logs_are_java_s(java: Java, warehouse: Path, name: str) -> None:
    shown = lw.CatalogFactory.create({"warehouse": str(warehouse)}).get_table(f"d.keyed{name}")
    ours = [list(row.values()) for row in lw.read_table(shown, incremental=(1, 3)).to_pylist()]
    theirs = java.read(warehouse, f"d.keyed{name}", **{"incremental-between": "1,3"})
    assert sorted(ours, key=str) == sorted(theirs, key=str)


def _spelled(name: str, row: dict[str, Any]) -> list[Any]:
    """Return a row with times in milliseconds, nested rows as lists, and texts that both spell differently alike."""
    out: dict[str, Any] = {column: _value(value) for column, value in row.items()}
    if name in ("$files", "$buckets", "$file_key_ranges", "$table_indexes"):  # `p=a` here, `{a}` in Java
        out["partition"] = out["partition"].removeprefix("p=").strip("{}")
    if name == "$files":  # the name of the file here, its whole path in Java; JSON here, `{k=1}` in Java
        out["file_path"] = out["file_path"].rpartition("/")[2]
        for column in ("null_value_counts", "min_value_stats", "max_value_stats"):
            out[column] = sorted(re.sub(r'["{} ]', "", out[column]).replace(":", "=").split(","))
    if name == "$schemas":
        out["options"] = json.loads(out["options"])
    if name == "$branches":  # the age of a directory in Java, of its first file here
        out["create_time"] = out["create_time"][: len("2026-01-01T00:00")]
    return list(out.values())


def _value(value: object) -> object:
    match value:
        case dict():
            return [_value(inner) for inner in value.values()]
        case list():
            return [_value(inner) for inner in value]
        case datetime():
            return value.isoformat(timespec="milliseconds")
        case str() if JAVA_TIME.fullmatch(value):
            return value[: len("2026-01-01T00:00:00.000")]
        case _:
            return value
