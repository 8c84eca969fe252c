"""Cases of the corpus run on an engine: what each answers, in values that can be compared and stored as JSON."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

from support.sql_corpus.cases import Case, fixture

Answer = dict[str, Any]


class Session(Protocol):
    """One session of an engine, with settings of its own."""

    def sql(self, text: str, args: dict[str, Any] | None = None) -> tuple[list[str], list[list[Any]]]: ...


@dataclass(frozen=True)
class Places:
    """Where the engine's tables are, and the files that statements read and write."""

    warehouse: Path
    files: Path
    out: Path

    def filled(self, text: str, database: str) -> str:
        text = text.replace("{db}", database).replace("{files}", str(self.files)).replace("{out}", str(self.out))

        def moment(found: re.Match[str]) -> str:
            kind, table, snapshot = found.groups()
            path = self.warehouse / f"{database}.db" / table / "snapshot" / f"snapshot-{snapshot}"
            millis = json.loads(path.read_text())["timeMillis"]
            if kind == "millis":
                return str(millis)
            if kind == "seconds":
                return str(millis // 1000 + 1)
            return dt.datetime.fromtimestamp(millis / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

        return re.sub(r"\{(millis|seconds|time) (\w+) (\d+)\}", moment, text)


def answers(
    cases: list[Case], places: Places, session: Callable[[], Session], made: set[str] | None = None
) -> Iterator[tuple[Case, Answer]]:
    """Run the cases one after the other: fixtures that are only read are made once, and not if they are `made`."""
    there: dict[str, Answer] = {database: {} for database in made or ()}
    for case in cases:
        yield case, _answer(case, places, session(), there)


def _answer(case: Case, places: Places, session: Session, made: dict[str, Answer]) -> Answer:
    database = case.database
    new = database not in made
    if new:
        made[database] = _tried(session, f"CREATE DATABASE {database}")
    for text in [f"USE {database}", *(fixture(case.fixture) if new else ())]:
        made[database] = made[database] or _tried(session, text)
    failed = made[database]
    for text in case.start:
        failed = failed or _tried(session, places.filled(text, database))
    if failed:
        return {**failed, "setup": failed["error"]}
    try:
        columns, rows = session.sql(places.filled(case.statement, database), case.args)
    except Exception as error:  # noqa: BLE001 whatever an engine raises is its answer
        return {"error": said(error), **_kind(error)}
    answer: Answer = {"columns": columns, "result": _in_order(rows, case, case.statement)}
    try:
        for text in case.then:
            answer["after"] = _in_order(session.sql(places.filled(text, database))[1], case, text)
    except Exception as error:  # noqa: BLE001 as above
        answer |= {"then": said(error), **_kind(error)}
    shown: Answer = json.loads(json.dumps(answer).replace(str(places.warehouse), "<warehouse>"))
    return shown


def _tried(session: Session, text: str) -> Answer:
    """Run a statement; return nothing, or the error."""
    try:
        session.sql(text)
    except Exception as error:  # noqa: BLE001 as above
        return {"error": said(error), **_kind(error)}
    return {}


def _kind(error: Exception) -> Answer:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    marks = {"typed": "LakewrightError", "unsupported": "UnsupportedError", "spark": "PySparkException"}
    return {"type": type(error).__name__, **{mark: True for mark, kind in marks.items() if kind in kinds}}


def said(error: Exception) -> str:
    return str(error).split("JVM stacktrace")[0].split("\n\tat ")[0].strip()[:600]


def plain(value: Any) -> Any:  # noqa: ANN401 values of every type
    """One value of Spark's or Python's as JSON has it: structs and arrays as lists, maps as sorted pairs."""
    if isinstance(value, dict):
        return sorted([plain(key), plain(item)] for key, item in value.items())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return "0x" + bytes(value).hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    return value


def _in_order(rows: list[list[Any]], case: Case, text: str) -> list[list[Any]]:
    ordered = case.ordered or text.startswith(("DESC", "SHOW COLUMNS"))
    return rows if ordered else sorted(rows, key=lambda row: json.dumps(row, default=str))
