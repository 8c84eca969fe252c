"""What each process is about to do and what came of it, written before and after each operation.

One line of JSON says what an operation intends, a second one how it ended. A process that is killed in between leaves
an operation without an end, whose outcome is unknown. A line is one `write` to a file of the process's own, which a
kill cannot take back. Times are those of the monotonic clock, which all processes of a machine share whatever their
wall clocks say.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lakewright.errors import CatalogServerError, CommitUnknownError, LakewrightError

T = TypeVar("T")

DONE, FAILED, UNKNOWN = "done", "failed", "unknown"
_now = time.monotonic  # a name of its own: the wall clocks of processes are shifted


@dataclass(slots=True)
class Operation:
    """One operation as the journals tell it; `facts` has what its role wrote about it."""

    uid: str
    verb: str
    table: str
    begin: float
    facts: dict[str, Any]
    end: float  # of a process that was killed: when it was dead
    outcome: str = UNKNOWN
    error: str = ""
    raw: str = ""  # the traceback of an error that is not one of the library

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that the operation says it made."""
        found: int | None = self.facts.get("id")
        return found


@dataclass(slots=True)
class Journal:
    """The journal of one process."""

    path: str
    life: int
    _count: int = field(default=0, init=False)

    def attempt(
        self, verb: str, table: str, act: Callable[[str], T], told: Callable[[T], dict[str, Any]], **facts: object
    ) -> T | None:
        """Run an operation between its two lines; None if it failed. `act` gets its name, `told` the result."""
        self._count += 1
        uid = f"{self.life}.{self._count}"
        self._write({"uid": uid, "verb": verb, "table": table, "at": _now(), **facts})
        try:
            result = act(uid)
            end = {"outcome": DONE, **told(result)}
        except CommitUnknownError as error:
            result, end = None, {"outcome": UNKNOWN, "error": _text(error)}
        except LakewrightError as error:
            perhaps = isinstance(error, CatalogServerError) and error.facts.get("perhaps_done", True)
            result, end = None, {"outcome": UNKNOWN if perhaps else FAILED, "error": _text(error)}
        except Exception as error:  # noqa: BLE001 - the checker judges it
            result, end = None, {"outcome": UNKNOWN, "error": _text(error), "raw": traceback.format_exc()}
        self._write({"uid": uid, "at": _now(), **end})
        return result

    def _write(self, line: dict[str, Any]) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:600]


def load(paths: Iterable[Path], deaths: Mapping[int, float], lateness: float) -> list[Operation]:
    """Return all operations, in the order in which they began.

    `deaths` says when each life ended. What is unknown may happen `lateness` seconds after it was given up.
    """
    found: dict[str, Operation] = {}
    for path in paths:
        for text in path.read_text().split("\n")[:-1]:
            line = json.loads(text)
            uid, at = line.pop("uid"), line.pop("at")
            if "verb" in line:
                dead = deaths[int(uid.partition(".")[0])]
                found[uid] = Operation(uid, line.pop("verb"), line.pop("table"), at, line, end=dead)
                continue
            one = found[uid]
            one.end, one.outcome = at, line.pop("outcome")
            one.error, one.raw = line.pop("error", ""), line.pop("raw", "")
            one.facts |= line
    for one in found.values():
        one.end += lateness if one.outcome == UNKNOWN else 0
    return sorted(found.values(), key=lambda one: one.begin)
