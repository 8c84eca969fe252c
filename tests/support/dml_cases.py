"""Hard cases of changes by SQL, written by hand: each a short script over fixed rows of `lake.t` and `lake.u`."""

# ruff: noqa: E501, S608 - a script is read by its lines, and the statements are our own
from __future__ import annotations

from dataclasses import dataclass

from support.dml_scripts import SOURCE, TARGET, Statement, deleting, updating

FILL = [
    Statement(
        f"""INSERT INTO {TARGET} VALUES
(1, 1, 10, 1.25, 1.5D, 'a', true, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:00:00', named_struct('a', 1, 'b', 'x'),
 array(1, 2), 'x'),
(2, 2, NULL, NULL, NULL, 'b', false, NULL, NULL, NULL, NULL, 'x'),
(3, NULL, 30, 3.00, 0.1D, NULL, NULL, DATE'1969-12-31', NULL, named_struct('a', NULL, 'b', 'é'), array(NULL, 3), 'y'),
(4, 4, 40, -4.50, 1e300D, '日本', true, DATE'2026-11-16', TIMESTAMP'1969-12-31 23:59:59',
 named_struct('a', 2, 'b', NULL), CAST(array() AS ARRAY<INT>), 'y'),
(5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'z')"""
    ),
    Statement(
        f"""INSERT INTO {SOURCE} VALUES
(2, 20, 200, 2.20, 2.2D, 'two', true, DATE'2020-02-02', TIMESTAMP'2020-02-02 02:02:02', named_struct('a', 22, 'b', 'u'),
 array(2), 'x'),
(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'y'),
(7, 70, 700, 7.70, 7.7D, 'seven', false, DATE'2020-07-07', NULL, NULL, array(7, NULL), 'y'),
(8, NULL, 800, 8.80, NULL, 'acht', NULL, NULL, NULL, named_struct('a', 8, 'b', 'eight'), NULL, 'w')"""
    ),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One script after the fixed rows are there. `keyed`: it also runs on tables with a primary key."""

    name: str
    statements: tuple[Statement, ...]
    keyed: bool = True
    filled: bool = True
    partitioned: bool = False  # only on tables with partitions


def _case(name: str, *texts: str | Statement, keyed: bool = True, filled: bool = True, parts: bool = False) -> Case:
    statements = tuple(Statement(text) if isinstance(text, str) else text for text in texts)
    return Case(name, statements, keyed=keyed, filled=filled, partitioned=parts)


def _delete(where: str) -> Statement:
    return Statement(f"DELETE FROM lake.t AS t WHERE {where}", peer=deleting(where))


def _update(assigned: dict[str, str], where: str) -> Statement:
    sets = ", ".join(f"{name} = {value}" for name, value in assigned.items())
    return Statement(f"UPDATE lake.t AS t SET {sets} WHERE {where}", peer=updating(assigned, where))


_MERGE = "MERGE INTO lake.t t USING lake.u s ON t.k = s.k"
_UPSERT = f"{_MERGE} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

DELETES = [
    _case("delete everything with a condition", "DELETE FROM lake.t WHERE true", _UPSERT),
    _case("delete everything without a condition", "DELETE FROM lake.t", "INSERT INTO lake.t (k, p) VALUES (9, 'x')"),
    _case("delete nothing", "DELETE FROM lake.t WHERE false"),
    _case("delete where the condition is unknown", "DELETE FROM lake.t WHERE i > 1 OR s = 'a'"),
    _case("delete where not unknown", "DELETE FROM lake.t WHERE NOT (i > 1)"),
    _case("delete by null equality", "DELETE FROM lake.t WHERE i <=> NULL"),
    _case("delete from an empty table", "DELETE FROM lake.t WHERE k = 1", filled=False),
    _case("delete twice", "DELETE FROM lake.t WHERE k = 1", "DELETE FROM lake.t WHERE k = 1"),
    _case("delete by a partition", "DELETE FROM lake.t WHERE p = 'x'", "DELETE FROM lake.t WHERE p > 'y' OR k = 3"),
    _case("delete by a nested field", "DELETE FROM lake.t WHERE st.b = 'é' OR st.a = 2"),
    _case("delete by functions", "DELETE FROM lake.t t WHERE year(t.dt) = 2024 OR size(t.arr) = 0"),
    _case("delete by a decimal", "DELETE FROM lake.t WHERE d = 3"),
    _case("delete by a date as text", "DELETE FROM lake.t WHERE dt < '2020-01-01'"),
    _case("delete by a time", "DELETE FROM lake.t WHERE ts > TIMESTAMP'2000-01-01 00:00:00'"),
    _case("delete by in", _delete("t.k IN (SELECT k FROM lake.u)")),
    _case("delete by not in", _delete("t.k NOT IN (SELECT k FROM lake.u)")),
    _case("delete by not in with a null", _delete("t.i NOT IN (SELECT i FROM lake.u)")),
    _case("delete by exists", _delete("EXISTS (SELECT 1 FROM lake.u q WHERE q.k = t.k AND q.i IS NULL)")),
    _case("delete by not exists", _delete("NOT EXISTS (SELECT 1 FROM v WHERE v.s = t.s)")),
    _case("delete by a scalar", _delete("t.k > (SELECT avg(k) FROM lake.u WHERE k < 5)")),
    _case("delete by its own rows", _delete("t.k = (SELECT max(k) FROM lake.t)")),
    _case("delete by an unknown column", "DELETE FROM lake.t WHERE nothing = 1"),
    _case("delete by division by zero", "DELETE FROM lake.t WHERE 1 / (k - 1) > 0"),
    _case("delete by what is no condition", "DELETE FROM lake.t WHERE k"),
]
UPDATES = [
    _case("update everything", "UPDATE lake.t SET i = 0"),
    _case("update nothing", "UPDATE lake.t SET i = 0 WHERE false"),
    _case("update an empty table", "UPDATE lake.t SET i = 0", filled=False),
    _case("update by the old values", "UPDATE lake.t SET i = CAST(b AS INT), b = i WHERE k < 5"),
    _case("update to null", "UPDATE lake.t SET s = NULL, st = NULL, arr = NULL, d = NULL WHERE k = 1"),
    _case("update a required column to null", "UPDATE lake.t SET k = NULL WHERE k = 1", keyed=False),
    _case("update the key", "UPDATE lake.t SET k = k + 10 WHERE k < 3", keyed=False),
    _case("update where unknown", "UPDATE lake.t SET s = 'hit' WHERE i <> 2"),
    _case("update a partition column", "UPDATE lake.t SET p = 'moved' WHERE k IN (1, 3)", keyed=False),
    _case("update a partition column to null", "UPDATE lake.t SET p = NULL WHERE k = 1", keyed=False),
    _case("update a nested field", "UPDATE lake.t SET st.a = 9 WHERE k = 1"),
    _case("update a nested field of null", "UPDATE lake.t SET st.a = 9 WHERE k = 2"),
    _case("update a struct", "UPDATE lake.t SET st = named_struct('a', i, 'b', s)"),
    _case("update an array", "UPDATE lake.t SET arr = array(i, NULL, 3) WHERE p = 'x'"),
    _case("update by a long in range", "UPDATE lake.t SET i = b WHERE b < 100"),
    _case("update by a long out of range", "UPDATE lake.t SET i = 3000000000 WHERE k = 1"),
    _case(
        "update by a long out of range in one row", "UPDATE lake.t SET i = CASE WHEN k = 4 THEN 3000000000 ELSE 1 END"
    ),
    _case("update a number by letters", "UPDATE lake.t SET i = 'abc' WHERE k = 1"),
    _case("update a decimal out of range", "UPDATE lake.t SET d = 123456789.99 WHERE k = 1"),
    _case("update a decimal with rounding", "UPDATE lake.t SET d = 1.005 WHERE k = 1"),
    _case("update a decimal by a number", "UPDATE lake.t SET d = 7 WHERE k = 1", "UPDATE lake.t SET d = d * 1.5"),
    _case("update a double by an integer", "UPDATE lake.t SET x = k"),
    _case("update text by a number", "UPDATE lake.t SET s = k"),
    _case("update a date by a time", "UPDATE lake.t SET dt = ts WHERE k = 1"),
    _case("update one column twice", "UPDATE lake.t SET i = 1, i = 2"),
    _case("update an unknown column", "UPDATE lake.t SET nothing = 1"),
    _case("update by a scalar", "UPDATE lake.t SET i = (SELECT max(i) FROM lake.u) WHERE k = 1"),
    _case("update by in", _update({"i": "99"}, "t.k IN (SELECT k FROM lake.u)")),
    _case("update by exists", _update({"s": "concat(t.s, '!')"}, "EXISTS (SELECT 1 FROM v WHERE v.k = t.k)")),
    _case("update by an average", _update({"f": "true"}, "t.k > (SELECT avg(k) FROM lake.t)")),
    _case("update upper case names", "UPDATE lake.t SET I = K WHERE S = 'a'"),
    _case("update with an alias", "UPDATE lake.t AS z SET z.i = z.k, s = z.s || '?' WHERE z.k = 1"),
    _case("update by case", "UPDATE lake.t SET s = CASE WHEN f THEN 'yes' WHEN NOT f THEN 'no' END"),
    _case(
        "update twice, then delete",
        "UPDATE lake.t SET i = 1",
        "UPDATE lake.t SET i = i + 1",
        "DELETE FROM lake.t WHERE i = 2",
    ),
    _case("update text with quotes", "UPDATE lake.t SET s = 'it''s {a} \"b\" ; -- c' WHERE k = 1"),
]
INSERTS = [
    _case("insert some columns", "INSERT INTO lake.t (k, s, p) VALUES (9, 'nine', 'x')"),
    _case("insert columns in another order", "INSERT INTO lake.t (p, i, k) VALUES ('x', 1, 9)"),
    _case("insert without a required column", "INSERT INTO lake.t (i) VALUES (1)"),
    _case("insert null into a required column", "INSERT INTO lake.t (k, p) VALUES (NULL, 'x')"),
    _case("insert too few columns", "INSERT INTO lake.t SELECT k FROM lake.u"),
    _case("insert too many columns", "INSERT INTO lake.t SELECT *, 1 FROM lake.u"),
    _case("insert an unknown column", "INSERT INTO lake.t (k, nothing) VALUES (9, 1)"),
    _case("insert a column twice", "INSERT INTO lake.t (k, k) VALUES (9, 9)"),
    _case("insert a number out of range", "INSERT INTO lake.t (k, i, p) VALUES (9, 3000000000, 'x')"),
    _case("insert letters into a number", "INSERT INTO lake.t (k, i, p) VALUES (9, 'abc', 'x')"),
    _case("insert nothing", "INSERT INTO lake.t SELECT * FROM lake.u WHERE false"),
    _case("insert its own rows", "INSERT INTO lake.t SELECT * FROM lake.t", keyed=False),
    _case("insert its own rows with new keys", "INSERT INTO lake.t SELECT k + 100, i, b, d, x, s, f, dt, ts, st, arr, p FROM lake.t"),
    _case("insert by a with", "INSERT INTO lake.t WITH q AS (SELECT * FROM lake.u WHERE k > 5) SELECT * FROM q"),
    _case("insert a union", "INSERT INTO lake.t SELECT * FROM lake.u WHERE k = 7 UNION ALL SELECT * FROM v WHERE k = 12"),
    _case("insert by name", "INSERT INTO lake.t BY NAME SELECT 'x' AS p, 9L AS k, 'n' AS s"),
    _case("insert an empty text and spaces", "INSERT INTO lake.t (k, s, p) VALUES (9, '', ' '), (10, ' ', 'a=b/c%')"),
    _case("overwrite", "INSERT OVERWRITE lake.t SELECT * FROM lake.u"),
    _case("overwrite by nothing", "INSERT OVERWRITE lake.t SELECT * FROM lake.u WHERE false"),
    _case("overwrite by its own rows", "INSERT OVERWRITE lake.t SELECT * FROM lake.t WHERE k > 2"),
    _case("overwrite with some columns", "INSERT OVERWRITE lake.t (k, p) VALUES (9, 'x')"),
    _case("overwrite table word", "INSERT OVERWRITE TABLE lake.t VALUES (9, 1, 1, 1.1, 1.1D, 'a', true, NULL, NULL, NULL, NULL, 'x')"),
    _case("overwrite one partition", "INSERT OVERWRITE lake.t PARTITION (p = 'x') SELECT k, i, b, d, x, s, f, dt, ts, st, arr FROM lake.u", parts=True),
    _case("overwrite a new partition", "INSERT OVERWRITE lake.t PARTITION (p = 'new') SELECT k, i, b, d, x, s, f, dt, ts, st, arr FROM lake.u", parts=True),
    _case("overwrite dynamic partitions", Statement("INSERT OVERWRITE lake.t SELECT * FROM lake.u", dynamic=True), parts=True),
    _case("overwrite dynamic partitions by nothing", Statement("INSERT OVERWRITE lake.t SELECT * FROM lake.u WHERE false", dynamic=True), parts=True),
    _case("overwrite dynamic partitions by name", Statement("INSERT OVERWRITE lake.t PARTITION (p) SELECT * FROM lake.u WHERE p = 'w'", dynamic=True), parts=True),
    _case("insert into one partition", "INSERT INTO lake.t PARTITION (p = 'x') SELECT k + 10, i, b, d, x, s, f, dt, ts, st, arr FROM lake.u", parts=True),
]  # fmt: skip
MERGES = [
    _case("upsert", _UPSERT),
    _case("upsert twice", _UPSERT, _UPSERT),
    _case("upsert into an empty table", FILL[1], _UPSERT, filled=False),
    _case("merge an empty source", "DELETE FROM lake.u", _UPSERT, f"{_MERGE} WHEN NOT MATCHED BY SOURCE THEN DELETE"),
    _case("merge only inserts", f"{_MERGE} WHEN NOT MATCHED THEN INSERT *"),
    _case("merge inserts on a condition", f"{_MERGE} WHEN NOT MATCHED AND s.i > 0 THEN INSERT (k, s, p) VALUES (s.k, s.s, s.p)"),
    _case("merge several inserts", f"{_MERGE} WHEN NOT MATCHED AND s.i IS NULL THEN INSERT (k, i, p) VALUES (s.k, -1, s.p) WHEN NOT MATCHED THEN INSERT *"),
    _case("merge inserts repeated rows", "MERGE INTO lake.t t USING (SELECT * FROM lake.u UNION ALL SELECT * FROM lake.u) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *", keyed=False),
    _case("merge is ambiguous", "MERGE INTO lake.t t USING (SELECT * FROM lake.u UNION ALL SELECT * FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.i"),
    _case("merge is ambiguous and inserts", "MERGE INTO lake.t t USING (SELECT * FROM lake.u UNION ALL SELECT * FROM lake.u WHERE k = 2) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    _case("merge deletes one row by two", "MERGE INTO lake.t t USING (SELECT * FROM lake.u UNION ALL SELECT * FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN DELETE"),
    _case("merge deletes one row by two on a condition", "MERGE INTO lake.t t USING (SELECT * FROM lake.u UNION ALL SELECT * FROM lake.u) s ON t.k = s.k WHEN MATCHED AND s.k = 2 THEN DELETE"),
    _case("merge by two rows of which a condition leaves one", "MERGE INTO lake.t t USING (SELECT k, i FROM lake.u UNION ALL SELECT k, i + 1 FROM lake.u) s ON t.k = s.k WHEN MATCHED AND s.i = 21 THEN UPDATE SET i = s.i"),
    _case("merge of two matches, one clause each", "MERGE INTO lake.t t USING (SELECT k, i FROM lake.u UNION ALL SELECT k, i + 1 FROM lake.u) s ON t.k = s.k WHEN MATCHED AND s.i = 21 THEN UPDATE SET i = s.i WHEN MATCHED AND s.i = 20 THEN DELETE"),
    _case("merge with several clauses", f"{_MERGE} WHEN MATCHED AND s.i IS NULL THEN DELETE WHEN MATCHED AND t.i = 2 THEN UPDATE SET i = t.i + s.i WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s.k = 7 THEN INSERT *"),
    _case("merge where a clause is unknown", f"{_MERGE} WHEN MATCHED AND s.i > 0 THEN UPDATE SET s = 'first' WHEN MATCHED THEN UPDATE SET s = 'second'"),
    _case("merge on false", "MERGE INTO lake.t t USING lake.u s ON false WHEN NOT MATCHED AND s.k > 5 THEN INSERT *"),
    _case("merge on true", "MERGE INTO lake.t t USING (SELECT 77 AS z) s ON true WHEN MATCHED THEN UPDATE SET i = s.z"),
    _case("merge on true by two", "MERGE INTO lake.t t USING (SELECT 77 AS z UNION ALL SELECT 78) s ON true WHEN MATCHED THEN UPDATE SET i = s.z"),
    _case("merge on an unknown", "MERGE INTO lake.t t USING lake.u s ON t.k = s.k AND CAST(NULL AS BOOLEAN) WHEN MATCHED THEN DELETE"),
    _case("merge on a range", "MERGE INTO lake.t t USING (SELECT 2 AS low, 4 AS high) s ON t.k BETWEEN s.low AND s.high WHEN MATCHED THEN UPDATE SET s = 'in' WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = 'out'"),
    _case("merge on less", "MERGE INTO lake.t t USING (SELECT * FROM lake.u WHERE k = 3) s ON t.k < s.k WHEN MATCHED THEN UPDATE SET b = s.k * 100"),
    _case("merge on a condition of the target", f"{_MERGE} AND t.p = 'x' WHEN MATCHED THEN UPDATE SET s = 'x'"),
    _case("merge on a condition of the source", f"{_MERGE} AND s.i > 1 WHEN MATCHED THEN UPDATE SET s = 'x'"),
    _case("merge on nulls", "MERGE INTO lake.t t USING lake.u s ON t.i = s.i WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.k > 5 THEN INSERT *"),
    _case("merge on equal nulls", "MERGE INTO lake.t t USING (SELECT * FROM lake.u WHERE k = 3) s ON t.i <=> s.i WHEN MATCHED THEN UPDATE SET s = 'null'"),
    _case("merge on another type", "MERGE INTO lake.t t USING (SELECT CAST(k AS STRING) AS k, i FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.i"),
    _case("merge on a function", "MERGE INTO lake.t t USING lake.u s ON t.k + 5 = s.k WHEN MATCHED THEN UPDATE SET i = s.i"),
    _case("merge on a struct", "MERGE INTO lake.t t USING v s ON t.st.a = s.st.a AND t.k = s.k WHEN MATCHED THEN UPDATE SET st = s.st, arr = s.arr"),
    _case("merge not matched by source deletes", f"{_MERGE} WHEN NOT MATCHED BY SOURCE THEN DELETE"),
    _case("merge not matched by source on conditions", f"{_MERGE} WHEN NOT MATCHED BY SOURCE AND t.i IS NULL THEN UPDATE SET s = 'n', i = 0 WHEN NOT MATCHED BY SOURCE AND t.k = 1 THEN DELETE"),
    _case("merge with every clause", f"{_UPSERT} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET f = false, d = coalesce(t.d, 0.5)"),
    _case("merge by target words", f"{_MERGE} WHEN NOT MATCHED BY TARGET THEN INSERT *"),
    _case("merge a view", "MERGE INTO lake.t AS target USING v AS source ON target.k = source.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    _case("merge a join", "MERGE INTO lake.t t USING (SELECT u.k, v.s, u.p FROM lake.u u JOIN v ON u.k = v.k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET s = s.s"),
    _case("merge an aggregate", "MERGE INTO lake.t t USING (SELECT p, max(k) AS top, sum(i) AS total FROM lake.u GROUP BY p) s ON t.p = s.p WHEN MATCHED THEN UPDATE SET b = s.top, i = s.total"),
    _case("merge its own rows", "MERGE INTO lake.t t USING (SELECT * FROM lake.t WHERE i IS NOT NULL) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.i * 2"),
    _case("merge its own rows with new keys", "MERGE INTO lake.t t USING (SELECT k + 3 AS k, s, p FROM lake.t) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (k, s, p) VALUES (s.k, s.s, s.p)", keyed=False),
    _case("merge fewer columns", "MERGE INTO lake.t t USING (SELECT k, i, p FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET t.i = s.i WHEN NOT MATCHED THEN INSERT (p, k, i) VALUES (s.p, s.k, s.i)"),
    _case("merge a star that lacks columns", "MERGE INTO lake.t t USING (SELECT k, i, p FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"),
    _case("merge a star in another order", "MERGE INTO lake.t t USING (SELECT p, arr, st, ts, dt, f, s, x, d, b, i, k FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    _case("merge a star with more columns", "MERGE INTO lake.t t USING (SELECT *, 1 AS more FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    _case("merge a star with wider types", "MERGE INTO lake.t t USING (SELECT k, CAST(i AS BIGINT) AS i, b, CAST(d AS DECIMAL(12,2)) AS d, x, s, f, dt, ts, st, arr, p FROM lake.u) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
    _case("merge inserts null into a required column", "MERGE INTO lake.t t USING (SELECT CAST(NULL AS BIGINT) AS k, 'x' AS p) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, p) VALUES (s.k, s.p)"),
    _case("merge inserts without a required column", f"{_MERGE} WHEN NOT MATCHED THEN INSERT (i, p) VALUES (s.i, s.p)"),
    _case("merge overflows in one row", f"{_MERGE} WHEN MATCHED THEN UPDATE SET i = s.b * 100000000"),
    _case("merge assigns null to a required column", f"{_MERGE} WHEN MATCHED THEN UPDATE SET k = NULL", keyed=False),
    _case("merge changes the key", f"{_MERGE} WHEN MATCHED THEN UPDATE SET k = t.k + 100", keyed=False),
    _case("merge moves a partition", f"{_MERGE} WHEN MATCHED THEN UPDATE SET p = 'moved', i = 1", keyed=False),
    _case("merge a nested field", f"{_MERGE} WHEN MATCHED THEN UPDATE SET t.st.b = s.s"),
    _case("merge an unknown column", f"{_MERGE} WHEN MATCHED THEN UPDATE SET nothing = 1"),
    _case("merge a column that is ambiguous", f"{_MERGE} WHEN MATCHED THEN UPDATE SET i = i + 1"),
    _case("merge an unknown source", "MERGE INTO lake.t t USING lake.nothing s ON t.k = s.k WHEN MATCHED THEN DELETE"),
    _case("merge without clauses that act", f"{_MERGE} WHEN MATCHED AND t.k > 100 THEN DELETE WHEN NOT MATCHED AND false THEN INSERT *"),
    _case("merge a source with a null key", "MERGE INTO lake.t t USING (SELECT CAST(NULL AS BIGINT) AS k, 5 AS i UNION ALL SELECT 1, 6) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET i = s.i"),
    _case("merge values", Statement("MERGE INTO lake.t t USING (VALUES (1, 'one'), (9, 'nine')) AS s(k, s) ON t.k = s.k WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (k, s, p) VALUES (s.k, s.s, 'x')", peer="MERGE INTO lake.t t USING (SELECT * FROM VALUES (1, 'one'), (9, 'nine') AS v(k, s)) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT (k, s, p) VALUES (s.k, s.s, 'x')")),
    _case("merge then change", _UPSERT, "UPDATE lake.t SET i = k WHERE k > 4", "DELETE FROM lake.t WHERE k IN (2, 7)", _UPSERT),
]  # fmt: skip
CASES = {case.name: case for case in [*DELETES, *UPDATES, *INSERTS, *MERGES]}
