"""Java Paimon as a process that tests talk to; the part interop-java of `make nightly` compiles it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
JAVA = Path(os.environ.get("LAKEWRIGHT_JAVA", str(ROOT / "target" / "java")))
Warehouse = Path | Mapping[str, str]  # a directory, or the options of a catalog


class JavaError(Exception):
    """Java failed; the text is its stack trace."""


@dataclass(slots=True)
class Java:
    """A Java process that reads tables and copies rows between them."""

    home: Path = JAVA  # where the jars and classes of one version are
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        classpath = f"{self.home}/jars/*:{self.home}/classes"
        self.process = subprocess.Popen(
            ["java", "-Duser.timezone=UTC", "-Xmx2g", "-cp", classpath, "JavaPeer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, *words: str) -> dict[str, Any]:
        """Send one command."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the Java process died"}
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer

    def read(self, warehouse: Warehouse, table: str, **options: str) -> list[Any]:
        """Return the rows of a batch read in the spelling of the golden tables."""
        database, name = table.split(".")
        pairs = [f"{key}={value}" for key, value in options.items()]
        rows: list[Any] = self.ask("read", _spelled(warehouse), database, name, *pairs)["rows"]
        return rows

    def find(self, warehouse: Warehouse, table: str, column: str, text: str) -> list[Any]:
        """Return the rows whose text column equals a value, filtered by Java."""
        database, name = table.split(".")
        rows: list[Any] = self.ask("find", _spelled(warehouse), database, name, column, text)["rows"]
        return rows

    def copy(self, warehouse: Warehouse, source: str, target: str) -> None:
        """Append all rows of one table to another of the same database, written by Java."""
        database, name = source.split(".")
        self.ask("copy", _spelled(warehouse), database, name, target.split(".")[1])

    def apply(self, warehouse: Warehouse, source: str, target: str, **options: str) -> None:
        """Write the changes that one table lists, their kinds in its first column, to another, as Java."""
        database, name = source.split(".")
        pairs = [f"{key}={value}" for key, value in options.items()]
        self.ask("apply", _spelled(warehouse), database, name, target.split(".")[1], *pairs)

    def compact(self, warehouse: Warehouse, table: str, **options: str) -> None:
        """Compact every bucket fully, as Java."""
        database, name = table.split(".")
        self.ask("compact", _spelled(warehouse), database, name, *(f"{key}={value}" for key, value in options.items()))

    def branch(self, warehouse: Warehouse, table: str, name: str) -> None:
        """Make an empty branch, as Java."""
        self.ask("branch", _spelled(warehouse), *table.split("."), name)

    def set(self, warehouse: Warehouse, table: str, options: Mapping[str, str]) -> None:
        """Store options in the schema of a table, as Java."""
        self.ask("set", _spelled(warehouse), *table.split("."), *(f"{key}={value}" for key, value in options.items()))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def _spelled(warehouse: Warehouse) -> str:
    if isinstance(warehouse, Path):
        return str(warehouse)
    return "|".join(f"{key}={value}" for key, value in warehouse.items())
