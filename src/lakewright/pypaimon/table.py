"""pypaimon's table: lakewright's, with the attributes and managers that scripts for pypaimon use."""

from __future__ import annotations

from lakewright.table import table as core


class FileStoreTable(core.FileStoreTable):
    """A table with pypaimon's shapes."""

    __slots__ = ()
