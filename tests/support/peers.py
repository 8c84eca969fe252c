"""The Python peers, in their own environment, as an object that reads, appends and creates."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.java import Warehouse

ROOT = Path(__file__).parent.parent.parent
PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(ROOT / ".venvs" / "peers" / "bin" / "python")))
NAMES = ("pypaimon", "pypaimon-rust")


class PeerError(Exception):
    """The peer failed; the text is its traceback."""


@dataclass(slots=True)
class Peers:
    """A process that holds both Python peers."""

    scratch: Path
    process: subprocess.Popen[str] = field(init=False)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the process."""
        self.process = subprocess.Popen(
            [str(PYTHON), str(ROOT / "tests" / "interop" / "peer.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)

    def ask(self, **command: object) -> dict[str, Any]:
        """Send one command; a process that died of the one before is replaced."""
        if self.process.poll() is not None:
            self.start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "the peer's process died"}
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def read(
        self,
        peer: str,
        warehouse: Warehouse,
        table: str,
        columns: list[str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> pa.Table | None:
        """Read a whole table, or some of its columns; None when the peer returns no batch at all."""
        place = _spelled(warehouse)
        return self._rows(op="read", peer=peer, warehouse=place, table=table, columns=columns, options=options)

    def changes(
        self, warehouse: Warehouse, table: str, between: tuple[int, int], mode: str = "changelog"
    ) -> pa.Table | None:
        """Read with the Rust peer what changed between two snapshots, the kinds in a first column `rowkind`."""
        after, until = between
        return self._rows(op="changes", warehouse=_spelled(warehouse), table=table, after=after, until=until, mode=mode)

    def follow(self, warehouse: Warehouse, table: str, consumer: str, plans: int) -> pa.Table | None:
        """Follow a table with pypaimon from where a consumer stands, the kinds in a first column `_row_kind`."""
        return self._rows(op="follow", warehouse=_spelled(warehouse), table=table, consumer=consumer, plans=plans)

    def _rows(self, **command: object) -> pa.Table | None:
        out = self.scratch / f"{next(self.numbers)}.arrow"
        answer = self.ask(**command, out=str(out))
        if not out.exists():
            assert answer["rows"] == 0
            return None
        with pa.OSFile(str(out)) as source:
            return pa.ipc.open_file(source).read_all()

    def append(self, peer: str, warehouse: Warehouse, table: str, rows: pa.Table, **more: object) -> dict[str, Any]:
        """Append rows in one commit of the peer's."""
        data = self.put(rows)
        return self.ask(op="append", peer=peer, warehouse=_spelled(warehouse), table=table, data=data, **more)

    def change_rows(self, peer: str, warehouse: Warehouse, table: str, rows: pa.Table, *, delete: bool = False) -> None:
        """Update or delete rows by their `_ROW_ID`, in one commit of the peer's."""
        data = self.put(rows)
        self.ask(op="change_rows", peer=peer, warehouse=_spelled(warehouse), table=table, data=data, delete=delete)

    def create(self, warehouse: Warehouse, table: str, rows: pa.Table, **more: object) -> None:
        """Create a table with pypaimon, from an Arrow schema."""
        self.ask(op="create", warehouse=_spelled(warehouse), table=table, data=self.put(rows.slice(0, 0)), **more)

    def put(self, rows: pa.Table) -> str:
        """Write rows where the peer finds them."""
        path = self.scratch / f"{next(self.numbers)}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        return str(path)


def _spelled(warehouse: Warehouse) -> str | dict[str, str]:
    return str(warehouse) if isinstance(warehouse, Path) else dict(warehouse)
