"""A context for tests of the command line: queries return tables that a test gave, by their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

import pyarrow as pa

import lakewright as lw
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import UnsupportedError
from lakewright.statements.sql_context import Context
from lakewright.statements.sql_text import Args, Fragment
from lakewright.statements.statements import (
    CopyIn,
    CopyOut,
    CreateTableAs,
    CreateView,
    Delete,
    DescribeQuery,
    Explain,
    Insert,
    MergeInto,
    Native,
    Update,
)
from lakewright.table.file_store_table import FileStoreTable


class FakeContext(Context[pa.Table]):
    """Answers queries from `answers`; commands run on the catalog as everywhere."""

    def __init__(self, catalog: lw.Catalog, database: str = "default") -> None:
        super().__init__(catalog, database)
        self.answers: dict[str, pa.Table | Callable[[], pa.Table]] = {}
        self.asked: list[tuple[str, Args]] = []

    def compact(self, table: FileStoreTable, **arguments: object) -> CompactResult:
        """Compact a table in this process."""
        return table.compact(**arguments)  # type: ignore[arg-type]

    def settings(self) -> dict[str, str]:
        """Return nothing: nothing is set."""
        return {}

    def set(self, key: str, value: str | None) -> NoReturn:
        """Refuse to set anything."""
        raise NotImplementedError(key, value)

    def with_frames(self, frames: Mapping[str, object]) -> AbstractContextManager[None]:
        """Know no frames."""
        assert not frames
        return nullcontext()

    def rows(self, table: pa.Table) -> pa.Table:
        """Return a table as it is."""
        return table

    def query(self, query: Fragment, args: Args) -> pa.Table:
        """Return the answer that the test gave."""
        self.asked.append((query.text, args))
        if query.text not in self.answers:
            raise query.error("no answer", kind=UnsupportedError)
        answer = self.answers[query.text]
        return answer() if callable(answer) else answer

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> NoReturn:
        """Refuse to write."""
        raise NotImplementedError(statement, args)

    def change(self, statement: Update | Delete | MergeInto, args: Args) -> NoReturn:
        """Refuse to change rows."""
        raise NotImplementedError(statement, args)

    def other(self, statement: Explain | DescribeQuery | CreateView | Native, args: Args) -> pa.Table:
        """Return no columns, as a statement does that shows nothing."""
        self.asked.append((statement.text.text, args))
        return pa.table({})
