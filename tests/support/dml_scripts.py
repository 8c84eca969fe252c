"""Random scripts of INSERT, UPDATE, DELETE and MERGE: a seed in, statements out that two engines can run.

A script changes the table `lake.t`, and now and then its source `lake.u`; the temporary view `v` has the same columns.
Values come from small sets, so that keys meet, conditions are true, false and unknown, and rows repeat. On a table with
a primary key every key that is inserted is new, because the other engine knows no keys. The same seed gives the same
script on every machine.
"""

# ruff: noqa: S608 - the statements are our own
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

TARGET, SOURCE, VIEW = "lake.t", "lake.u", "v"
COLUMNS = {
    "k": "BIGINT",
    "i": "INT",
    "b": "BIGINT",
    "d": "DECIMAL(10,2)",
    "x": "DOUBLE",
    "s": "STRING",
    "f": "BOOLEAN",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "st": "STRUCT<a: INT, b: STRING>",
    "arr": "ARRAY<INT>",
    "p": "STRING",
}
VALUES = {
    "i": ["-1", "0", "1", "2", "3", "2147483647", "NULL"],
    "b": ["-1", "0", "1", "2", "9007199254740993", "NULL"],
    "d": ["0.00", "1.25", "-1.25", "99999.99", "0.01", "NULL"],
    "x": ["0.0D", "-0.5D", "1.5D", "1e300D", "0.1D", "NULL"],
    "s": ["''", "'a'", "'b'", "'a%'", "'日本'", "'é'", "'O''Brien'", "'🙂 x'", "NULL"],
    "f": ["true", "false", "NULL"],
    "dt": ["DATE'2024-02-29'", "DATE'1969-12-31'", "DATE'2026-11-16'", "NULL"],
    "ts": ["TIMESTAMP'2024-02-29 12:34:56.789012'", "TIMESTAMP'1969-12-31 23:59:59'", "NULL"],
    "st": [
        "named_struct('a', 1, 'b', 'x')",
        "named_struct('a', CAST(NULL AS INT), 'b', 'é')",
        "named_struct('a', 2, 'b', CAST(NULL AS STRING))",
        "NULL",
    ],
    "arr": ["array(1, 2)", "array(CAST(NULL AS INT), 3)", "CAST(array() AS ARRAY<INT>)", "NULL"],
    "p": ["'x'", "'y'", "'z'"],
}
# What a statement may compute for a column: {t} is the row that it changes, {o} the row of the source or the same one.
_COMPUTED = {
    "i": ["{o}.i", "coalesce({t}.i, 0) % 7 + 1", "length({o}.s)", "{o}.st.a", "CASE WHEN {t}.f THEN 5 ELSE {o}.i END"],
    "b": ["{o}.b", "{o}.k * 2", "CAST({o}.i AS BIGINT) + 1", "nullif({t}.b, {o}.b)", "{o}.i"],
    "d": [
        "{o}.d",
        "-{t}.d",
        "CAST({o}.i % 100 AS DECIMAL(10,2))",
        "round({t}.d / 2, 2)",
        "coalesce({t}.d, {o}.d, 7.77)",
    ],
    "x": ["{o}.x", "{t}.x / 3", "CAST({o}.d AS DOUBLE)", "{o}.i"],
    "s": ["{o}.s", "upper({t}.s)", "concat({o}.s, '-', {o}.k)", "substring({t}.s, 1, 1)", "CAST({o}.d AS STRING)"],
    "f": ["{o}.f", "{t}.i > 1", "NOT {t}.f", "{o}.s LIKE 'a%'", "{t}.s <=> {o}.s"],
    "dt": ["{o}.dt", "date_add({t}.dt, 31)", "CAST({o}.ts AS DATE)", "last_day({t}.dt)"],
    "ts": ["{o}.ts", "{t}.ts + INTERVAL 90 MINUTES", "CAST({o}.dt AS TIMESTAMP)"],
    "st": ["{o}.st", "named_struct('a', {t}.i, 'b', {o}.s)", "{t}.st"],
    "arr": ["{o}.arr", "array({t}.i, {o}.st.a)", "array_distinct({o}.arr)"],
    "p": ["{t}.p", "CASE WHEN {t}.i > 1 THEN 'x' ELSE 'z' END"],
}
# Conditions on one row, which are true, false or unknown.
_CONDITIONS = [
    "{r}.i > 1", "{r}.i <= 0", "{r}.i = 2", "{r}.i <> 2", "{r}.i IS NULL", "{r}.s IS NOT NULL", "{r}.s = 'a'",
    "{r}.s IN ('a', '日本', NULL)", "{r}.s NOT IN ('b', 'é')", "{r}.s NOT IN ('b', NULL)", "{r}.s LIKE 'a%'",
    "{r}.d > 1.00", "{r}.d BETWEEN -2 AND 1.25", "{r}.x < 1", "{r}.f", "NOT {r}.f", "{r}.dt < DATE'2025-01-01'",
    "{r}.ts >= TIMESTAMP'2000-01-01 00:00:00'", "year({r}.dt) = 2024", "{r}.st.a = 1", "{r}.st.b = 'é'",
    "{r}.st IS NULL", "size({r}.arr) > 1", "array_contains({r}.arr, 3)", "{r}.k % 3 = 0", "{r}.k IN (1, 3, 5, 1003)",
    "{r}.k > 5", "{r}.p = 'x'", "{r}.p <> 'y'", "{r}.p IN ('x', 'z') AND {r}.k < 8", "coalesce({r}.i, 3) = 3",
    "{r}.i <=> NULL", "CAST(NULL AS BOOLEAN)", "true", "length({r}.s) = 1", "{r}.b = 9007199254740993", "{r}.d = 0.01",
]  # fmt: skip
_PAIRS = ["{t}.i = {o}.i", "{t}.d > {o}.d", "{t}.s <=> {o}.s", "{t}.st.a < {o}.i", "{t}.dt <> {o}.dt", "{t}.p = {o}.p"]
# Conditions that ask another table. Delta Lake refuses them, so it gets a statement that means the same.
_SUBQUERIES = [
    "{r}.k IN (SELECT k FROM lake.u)",
    "{r}.k NOT IN (SELECT k FROM lake.u WHERE k IS NOT NULL)",
    "{r}.i NOT IN (SELECT i FROM lake.u)",
    "EXISTS (SELECT 1 FROM lake.u q WHERE q.k = {r}.k AND q.i > 0)",
    "NOT EXISTS (SELECT 1 FROM v q WHERE q.s = {r}.s)",
    "{r}.i >= (SELECT avg(i) FROM v)",
    "{r}.d > (SELECT min(d) FROM lake.u WHERE f)",
    "{r}.i = (SELECT max(q.i) FROM lake.u q WHERE q.p = {r}.p)",
    "{r}.k IN (SELECT q.k FROM lake.t q WHERE q.f)",
]


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, and what the other engine runs instead where it refuses this one."""

    text: str
    peer: str | None = None
    dynamic: bool = False  # an overwrite replaces only the partitions that it writes


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table of ours."""

    name: str
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)


KINDS = {
    kind.name: kind
    for kind in (
        Kind("plain"),
        Kind("vectors", options={"deletion-vectors.enabled": "true"}),
        Kind("tracked", options={"row-tracking.enabled": "true"}),
        Kind("partitioned", partitions=("p",)),
        Kind("partitioned-vectors", partitions=("p",), options={"deletion-vectors.enabled": "true"}),
        Kind("keyed", keys=("k",), options={"bucket": "2"}),
        Kind("keyed-dynamic", keys=("k",), options={"bucket": "-1"}),
        Kind("keyed-vectors", keys=("k",), options={"bucket": "2", "deletion-vectors.enabled": "true"}),
        Kind("keyed-partitioned", keys=("p", "k"), partitions=("p",), options={"bucket": "1"}),
    )
}


def script(seed: int, kind: Kind, length: int = 8) -> list[Statement]:
    """Return the statements of a seed: they fill the target and its source, then change the target."""
    return list(_Script(random.Random(f"{seed} {kind.name}"), kind).statements(length))


class _Script:
    """One script as it grows."""

    def __init__(self, chance: random.Random, kind: Kind) -> None:
        self._chance = chance
        self._kind = kind
        self._key = 0  # the next key that no row has had, for tables with a primary key
        self._clean = bool(kind.keys) or chance.random() < 0.8  # the keys of the source are unique and not null

    def statements(self, length: int) -> Iterator[Statement]:
        yield Statement(f"INSERT INTO {TARGET} VALUES {self._rows(self._chance.randint(4, 10))}")
        self._key = 100  # those of the source, which a merge may insert, are smaller
        yield Statement(f"INSERT INTO {SOURCE} VALUES {self._source_rows()}")
        kinds = [self._insert, self._overwrite, self._update, self._delete, self._merge, self._merge, self._merge]
        kinds += [self._update, self._delete, self._insert, self._renew_source]
        for _ in range(length):
            yield self._chance.choice(kinds)()

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _value(self, column: str) -> str:
        return self._chance.choice(VALUES[column])

    def _row(self, key: str) -> str:
        values = [self._value(column) for column in COLUMNS if column != "k"]
        if not self._kind.keys and self._chance.random() < 0.1:
            values[-1] = "NULL"
        return f"({', '.join([key, *values])})"

    def _new_key(self) -> str:
        self._key += 1
        return str(self._key - 1) if self._kind.keys else str(self._chance.randint(0, 11))

    def _rows(self, count: int) -> str:
        return ", ".join(self._row(self._new_key()) for _ in range(count))

    def _source_rows(self) -> str:
        keys: list[str] = [str(key) for key in self._chance.sample(range(16), self._chance.randint(2, 8))]
        if not self._clean:
            keys += [self._chance.choice([*keys, "NULL"])]
        return ", ".join(self._row(key) for key in keys)

    # ---- conditions --------------------------------------------------------------------------------------------------

    def _condition(self, *rows: str) -> str:
        """Return a condition on some rows, with AND, OR and NOT."""
        one = self._chance.choice(_CONDITIONS).format(r=self._chance.choice(rows))
        if len(rows) > 1 and self._chance.random() < 0.4:
            one = self._chance.choice(_PAIRS).format(t=rows[0], o=rows[1])
        chance = self._chance.random()
        if chance < 0.25:
            return f"{one} AND {self._condition(*rows)}"
        if chance < 0.4:
            return f"({one} OR {self._condition(*rows)})"
        return f"NOT ({one})" if chance < 0.5 else one

    def _assigned(self, target: str, other: str, *, count: int = 3) -> dict[str, str]:
        """Return new values of some columns."""
        free = [name for name in COLUMNS if name != "k" and name not in self._kind.keys]
        chosen = self._chance.sample(free, self._chance.randint(1, count))
        return {name: self._expression(name, target, other) for name in chosen}

    def _expression(self, column: str, target: str, other: str) -> str:
        if self._chance.random() < 0.35:
            return self._value(column)
        return self._chance.choice(_COMPUTED[column]).format(t=target, o=other)

    # ---- statements --------------------------------------------------------------------------------------------------

    def _insert(self) -> Statement:
        chance = self._chance.random()
        if chance < 0.4:
            return Statement(f"INSERT INTO {TARGET} VALUES {self._rows(self._chance.randint(1, 5))}")
        if chance < 0.6:
            some = ["k", *self._chance.sample([name for name in COLUMNS if name not in "kp"], 3), "p"]
            self._chance.shuffle(some)
            rows = []
            for _ in range(self._chance.randint(1, 3)):
                values = {name: self._new_key() if name == "k" else self._value(name) for name in some}
                rows.append(f"({', '.join(values.values())})")
            return Statement(f"INSERT INTO {TARGET} ({', '.join(some)}) VALUES {', '.join(rows)}")
        return Statement(f"INSERT INTO {TARGET} {self._query()}")

    def _query(self) -> str:
        """Return a query with the columns of the table, and keys that the table may have."""
        relation = self._chance.choice([SOURCE, VIEW])
        key = "k"
        if self._kind.keys:
            self._key = self._key // 100 * 100 + 100
            key = f"k + {self._key} AS k"
            self._key += 100
        where = f"WHERE {self._condition('q')} AND k IS NOT NULL"
        return f"SELECT {key}, {', '.join(name for name in COLUMNS if name != 'k')} FROM {relation} q {where}"

    def _overwrite(self) -> Statement:
        dynamic = bool(self._kind.partitions) and self._chance.random() < 0.6
        chance = self._chance.random()
        if self._kind.partitions and chance < 0.3:
            part = self._value("p")
            rows = ", ".join(
                f"({row.rpartition(', ')[0][1:]})" for row in (self._row(self._new_key()) for _ in range(3))
            )
            return Statement(f"INSERT OVERWRITE {TARGET} PARTITION (p = {part}) VALUES {rows}", dynamic=dynamic)
        if chance < 0.6:
            return Statement(f"INSERT OVERWRITE {TARGET} VALUES {self._rows(4)}", dynamic=dynamic)
        return Statement(f"INSERT OVERWRITE {TARGET} {self._query()}", dynamic=dynamic)

    def _update(self) -> Statement:
        assigned = self._assigned("t", "t")
        chance = self._chance.random()
        if chance < 0.3:
            return self._asking_update(assigned)
        if chance < 0.4:
            assigned = {"st.a": self._chance.choice(["t.i", "7", "NULL"])}
        elif chance < 0.5:
            assigned["i"] = "(SELECT max(i) FROM lake.u)"
        sets = ", ".join(f"{name} = {value}" for name, value in assigned.items())
        where = f" WHERE {self._condition('t')}" if self._chance.random() < 0.9 else ""
        return Statement(f"UPDATE {TARGET} AS t SET {sets}{where}")

    def _asking_update(self, assigned: dict[str, str]) -> Statement:
        """Return an update whose condition asks another table."""
        where = self._asking_condition()
        sets = ", ".join(f"{name} = {value}" for name, value in assigned.items())
        return Statement(f"UPDATE {TARGET} AS t SET {sets} WHERE {where}", peer=updating(assigned, where))

    def _asking_condition(self) -> str:
        asks = self._chance.choice(_SUBQUERIES).format(r="t")
        return f"{self._condition('t')} AND {asks}" if self._chance.random() < 0.4 else asks

    def _delete(self) -> Statement:
        if self._chance.random() < 0.35:
            where = self._asking_condition()
            return Statement(f"DELETE FROM {TARGET} AS t WHERE {where}", peer=deleting(where))
        return Statement(f"DELETE FROM {TARGET} AS t WHERE {self._condition('t')}")

    def _merge(self) -> Statement:
        source = self._chance.choice(
            [
                f"{SOURCE} AS s",
                f"{VIEW} s",
                f"(SELECT * FROM {SOURCE} q WHERE {self._condition('q')}) AS s",
                f"(SELECT q.* FROM {VIEW} q JOIN {SOURCE} r ON q.k = r.k WHERE q.k > 1) s",
            ]
        )
        inserts = self._chance.random() < 0.6
        # A row with a known key must not be inserted again where the table has a primary key.
        on = "t.k = s.k" + (" AND t.p = s.p" if "p" in self._kind.keys else "")
        if not self._kind.keys or not inserts:
            on += self._chance.choice(["", "", "", f" AND {self._condition('t', 's')}"])
        if not self._kind.keys and self._chance.random() < 0.1:
            on = self._chance.choice(
                ["t.i = s.i AND t.p = s.p", "t.k <=> s.k", "t.k = s.k + 1", "false", "t.st = s.st"]
            )
        clauses = self._matched_clauses()
        if inserts:
            clauses += self._insert_clauses()
        if self._chance.random() < 0.35:
            clauses += self._unmatched_clauses()
        if not clauses:
            clauses = ["WHEN MATCHED THEN DELETE"]
        return Statement(f"MERGE INTO {TARGET} AS t USING {source} ON {on} {' '.join(clauses)}")

    def _matched_clauses(self) -> list[str]:
        clauses = []
        count = self._chance.choice([0, 1, 1, 2, 2, 3])
        for at in range(count):
            when = f" AND {self._condition('t', 's')}" if at + 1 < count or self._chance.random() < 0.5 else ""
            clauses.append(f"WHEN MATCHED{when} THEN {self._matched_action()}")
        return clauses

    def _matched_action(self) -> str:
        chance = self._chance.random()
        if chance < 0.25:
            return "DELETE"
        if chance < 0.45:
            return "UPDATE SET *"
        assigned = self._assigned("t", "s")
        return f"UPDATE SET {', '.join(f'{self._named(name)} = {value}' for name, value in assigned.items())}"

    def _named(self, column: str) -> str:
        return self._chance.choice([column, f"t.{column}"])

    def _insert_clauses(self) -> list[str]:
        clauses = []
        count = self._chance.choice([1, 1, 2])
        for at in range(count):
            when = f" AND {self._condition('s')}" if at + 1 < count or self._chance.random() < 0.4 else ""
            chance = self._chance.random()
            if chance < 0.5:
                clauses.append(f"WHEN NOT MATCHED{when} THEN INSERT *")
            else:
                assigned = {"k": "s.k", **self._assigned("s", "s", count=4), "p": "s.p"}
                columns, values = ", ".join(assigned), ", ".join(assigned.values())
                clauses.append(f"WHEN NOT MATCHED{when} THEN INSERT ({columns}) VALUES ({values})")
        return clauses

    def _unmatched_clauses(self) -> list[str]:
        clauses = []
        if self._chance.random() < 0.6:
            assigned = self._assigned("t", "t", count=2)
            sets = ", ".join(f"{name} = {value}" for name, value in assigned.items())
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {self._condition('t')} THEN UPDATE SET {sets}")
        if not clauses or self._chance.random() < 0.5:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {self._condition('t')} THEN DELETE")
        return clauses

    def _renew_source(self) -> Statement:
        return Statement(f"INSERT OVERWRITE {SOURCE} VALUES {self._source_rows()}")


# ---- what Delta Lake runs where it refuses a condition that asks another table ---------------------------------------


def deleting(where: str) -> str:
    """Return an overwrite that leaves what a delete leaves; the condition stands in a WHERE, as it does there."""
    return f"INSERT OVERWRITE {TARGET} SELECT * FROM {TARGET} EXCEPT ALL SELECT * FROM {TARGET} t WHERE {where}"


def updating(assigned: dict[str, str], where: str) -> str:
    """Return an overwrite that leaves what an update leaves."""
    columns = ", ".join(
        f"CAST({assigned[name]} AS {dtype}) AS {name}" if name in assigned else f"t.{name}"
        for name, dtype in COLUMNS.items()
    )
    rest = f"(SELECT * FROM {TARGET} EXCEPT ALL SELECT * FROM {TARGET} t WHERE {where})"
    return f"INSERT OVERWRITE {TARGET} {rest} UNION ALL SELECT {columns} FROM {TARGET} t WHERE {where}"
