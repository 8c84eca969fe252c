"""The statements of the corpus: files of SQL in, cases out.

A case begins with `-- case: name`; lines `-- key: value` before its statement say how it is run:

- `on`: the fixture that it only reads; all such cases share one database.
- `from`: the fixture that it starts from, in a database of its own; `start`: one more statement before it.
- `then`: what is read after it (statements with `;`, the rows of the last one are compared).
- `error: yes`: it is refused. `compare: both`: its own rows are compared too. `ordered: yes`: so is the order of rows.
- `skip-rows: yes`: that it runs is enough. `columns`: the names of its columns. `args`: parameters, as JSON.
- `java`: why Java's connector 0.9.0 does not run it, or answers otherwise; then `rows` (and `result`) are expected.
- `ours`: why our rows are not Java's. `refused`: words of the error by which ours refuses what Java runs.
- `spark`: why Spark itself, to which the statement belongs, may answer as it likes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FAMILIES = ("ddl", "alter", "changes", "merge", "copy", "queries", "versions", "show", "procedures")
_COUNTS = "COPY INTO shows the counts of a change, not its files"
# Cases that answer otherwise than Java's connector, and why.
OTHERWISE = {
    "insert_types": "a CHAR is not filled with blanks, so that it equals the text that was written",
    "audit_log_incremental": "a row that SQL deletes has its key only",
    **dict.fromkeys(("copy_csv", "copy_to_csv", "copy_query_to_csv", "copy_to_json", "copy_to_parquet"), _COUNTS),
    "copy_aggregate_to_parquet": _COUNTS,
}


@dataclass(frozen=True)
class Case:
    name: str
    family: str
    statement: str
    fixture: str = "none"
    shared: bool = False
    start: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    error: bool = False
    both: bool = False
    ordered: bool = False
    skip_rows: bool = False
    columns: tuple[str, ...] = ()
    args: dict[str, Any] | None = None
    java: str = ""
    ours: str = ""
    refused: str = ""
    spark: str = ""
    expected: dict[str, Any] = field(default_factory=dict)

    @property
    def database(self) -> str:
        return f"s_{self.fixture}" if self.shared else f"c_{self.name}"


def corpus(*chosen: str) -> list[Case]:
    """Return the cases of the corpus, or those of some families or with some names."""
    every = [case for family in FAMILIES for case in _cases(family)]
    return [case for case in every if {case.name, case.family} & set(chosen)] if chosen else every


def fixture(name: str) -> list[str]:
    blocks = (HERE / "fixtures.sql").read_text().split("-- fixture: ")[1:]
    texts = dict(block.split("\n", 1) for block in blocks)
    return [statement.strip() for statement in texts[name].split(";") if statement.strip()]


def recorded() -> dict[str, dict[str, Any]]:
    """Read what Java's connector answered when the corpus was recorded, by the name of the case."""
    path = HERE / "recorded.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _cases(family: str) -> Iterator[Case]:
    for block in (HERE / f"{family}.sql").read_text().split("-- case: ")[1:]:
        name, body = block.split("\n", 1)
        lines = body.strip().split("\n")
        heads = [line for line in lines if line.startswith("-- ")]
        statement = "\n".join(line for line in lines if not line.startswith("-- "))
        yield _case(name.strip(), family, statement.strip(), [tuple(head[3:].split(": ", 1)) for head in heads])


def _case(name: str, family: str, statement: str, heads: list[Any]) -> Case:
    one = dict(heads)
    then = one.get("then", "")
    return Case(
        name=name,
        family=family,
        statement=statement,
        fixture=one.get("on") or one.get("from") or "none",
        shared="on" in one,
        start=tuple(value for key, value in heads if key == "start"),
        then=tuple(part.strip() for part in then.split(";") if part.strip()),
        error="error" in one,
        both="compare" in one,
        ordered="ordered" in one,
        skip_rows="skip-rows" in one,
        columns=tuple(one["columns"].split(", ")) if "columns" in one else (),
        args=json.loads(one["args"]) if "args" in one else None,
        java=one.get("java", ""),
        ours=one.get("ours", ""),
        refused=one.get("refused", ""),
        spark=one.get("spark", ""),
        expected={key: json.loads(one[key]) for key in ("rows", "result") if key in one},
    )
