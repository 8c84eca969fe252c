"""OPTIMIZE, VACUUM, RESTORE and DESCRIBE HISTORY of Delta Lake, and statements that no engine runs."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, LakewrightError, SQLSyntaxError, UnsupportedError


@pytest.fixture
def ctx(tmp_path: Path) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path)
    context.sql("CREATE DATABASE d")
    context.sql("USE d")
    context.sql("CREATE TABLE t (id INT, n INT, day STRING) PARTITIONED BY (day)")
    for number in range(6):
        context.sql(f"INSERT INTO t VALUES ({number}, {-number}, '{'ab'[number % 2]}')")  # noqa: S608 - no input
    return context


def _files(ctx: lw.SQLContext, day: str) -> int:
    found = ctx.sql("SELECT `partition` AS p FROM `t$files`")["p"].to_pylist()
    return sum(day in str(one).replace("day", "") for one in found)


def test_optimize_compacts_a_table_or_partitions_and_sorts(ctx: lw.SQLContext) -> None:
    done = ctx.sql("OPTIMIZE t FULL WHERE day = 'a'").to_pylist()[0]
    assert done["metrics"] == {"numFilesAdded": 1, "numFilesRemoved": 3, "numRows": 3}
    assert done["path"].endswith("/t")
    assert (_files(ctx, "a"), _files(ctx, "b")) == (1, 3)
    ctx.sql("OPTIMIZE d.t ZORDER BY (id, n)")
    assert (_files(ctx, "a"), _files(ctx, "b")) == (1, 1)
    ctx.sql("OPTIMIZE TABLE t ZORDER BY id")
    assert ctx.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [6]


def test_vacuum_expires_then_removes_orphans_and_lists_first(ctx: lw.SQLContext) -> None:
    root = Path(str(ctx.catalog.get_table("d.t").store.layout.root).removeprefix("file://"))
    orphan = root / "day=a" / "bucket-0" / "data-orphan-0.parquet"
    orphan.write_bytes(b"x")
    week_ago = time.time() - 8 * 86_400
    os.utime(orphan, (week_ago, week_ago))
    assert ctx.sql("VACUUM t").num_rows == 1, "no snapshot is a week old"
    orphan.write_bytes(b"x")
    os.utime(orphan, (week_ago, week_ago))
    listed = ctx.sql("VACUUM t RETAIN 0 HOURS DRY RUN").to_pylist()
    assert [row["kind"] for row in listed] == ["snapshot"] * 5 + ["file"]
    assert listed[0]["path"].endswith("/snapshot/snapshot-1")
    assert orphan.exists()
    assert ctx.sql("VACUUM t RETAIN 0 HOURS").to_pylist() == listed
    assert not orphan.exists()
    assert ctx.sql("SELECT snapshot_id FROM `t$snapshots`")["snapshot_id"].to_pylist() == [6]
    assert ctx.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [6]


def test_restore_publishes_an_old_state_as_a_new_snapshot(ctx: lw.SQLContext) -> None:
    ctx.sql("ALTER TABLE t CREATE TAG `early` AS OF VERSION 3")
    assert ctx.sql("RESTORE TABLE t TO VERSION AS OF 2").to_pylist() == [{"version": 7, "restored_version": 2}]
    assert ctx.sql("SELECT count(*) AS n FROM t")["n"].to_pylist() == [2]
    assert ctx.sql("RESTORE t VERSION AS OF 'early'").to_pylist() == [{"version": 8, "restored_version": 3}]
    moment = ctx.catalog.get_table("d.t").store.snapshots.get(5).time_millis
    at = datetime.fromtimestamp(moment / 1000, UTC).isoformat()
    for text, args in ((f"TIMESTAMP '{at}'", {}), (":at", {"at": at})):
        done = ctx.sql(f"RESTORE TABLE t TO TIMESTAMP AS OF {text}", args).to_pylist()
        assert done[0]["restored_version"] == 5
    with pytest.raises(LakewrightError, match="99"):
        ctx.sql("RESTORE TABLE t TO VERSION AS OF 99")


def test_the_history_has_the_column_names_of_delta(ctx: lw.SQLContext) -> None:
    ctx.sql("DELETE FROM t WHERE id = 0")
    found = ctx.sql("DESCRIBE HISTORY t")
    assert found.column_names == ["version", "timestamp", "userName", "operation", "operationMetrics"]
    assert found["version"].to_pylist() == [7, 6, 5, 4, 3, 2, 1]
    assert found["operation"].to_pylist()[1:] == ["APPEND"] * 6
    assert dict(found["operationMetrics"].to_pylist()[1]) == {"totalRecords": "6", "deltaRecords": "1"}
    assert ctx.sql("DESC HISTORY d.t LIMIT 2")["version"].to_pylist() == [7, 6]
    ctx.sql("CREATE TABLE history (id INT)")
    assert ctx.sql("DESCRIBE history")["col_name"].to_pylist() == ["id"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("CREATE VIEW v AS SELECT * FROM t", "CREATE TEMPORARY VIEW"),
        ("CREATE OR REPLACE VIEW d.v AS SELECT 1 AS x", "CREATE TEMPORARY VIEW"),
        ("CREATE FUNCTION f AS 'no.Class'", "register"),
        ("CACHE TABLE t", "cache"),
        ("CACHE LAZY TABLE t", "cache"),
        ("UNCACHE TABLE t", "cache"),
        ("DESCRIBE DETAIL t", "DESCRIBE TABLE EXTENDED"),
    ],
)
def test_what_no_engine_runs_is_refused_with_what_helps(ctx: lw.SQLContext, text: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=hint):
        ctx.sql(text)
    ctx.sql("CREATE TEMPORARY VIEW v AS SELECT id FROM t")
    assert ctx.sql("SELECT * FROM v").num_rows == 6


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("OPTIMIZE t WHERE n > 1", InvalidInputError),
        ("OPTIMIZE t ZORDER BY (nope)", LakewrightError),
        ("OPTIMIZE t ZORDER (id)", SQLSyntaxError),
        ("OPTIMIZE nope", LakewrightError),
        ("VACUUM t RETAIN", SQLSyntaxError),
        ("VACUUM t RETAIN 3 DAYS", SQLSyntaxError),
        ("RESTORE t", SQLSyntaxError),
        ("DESCRIBE HISTORY t LIMIT x", SQLSyntaxError),
    ],
)
def test_mistakes_show_their_place(ctx: lw.SQLContext, text: str, kind: type[LakewrightError]) -> None:
    with pytest.raises(kind, match="line 1"):
        ctx.sql(text)
