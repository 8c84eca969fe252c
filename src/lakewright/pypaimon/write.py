"""pypaimon's write builders: a table in; writers, row changes and commits with pypaimon's shapes out."""

from __future__ import annotations

import uuid
from typing import cast

from lakewright.pypaimon.commit import BatchTableCommit, StreamTableCommit
from lakewright.pypaimon.update import BatchTableUpdate, StreamTableUpdate
from lakewright.table import write_builder as core
from lakewright.table.table import FileStoreTable


class BatchWriteBuilder(core.BatchWriteBuilder):
    """Starts batch writes: any number of writers, a commit for each snapshot."""

    _commit_type = BatchTableCommit

    def __init__(self, table: FileStoreTable) -> None:
        super().__init__(table.refreshed().store)
        self.table = table
        self._name = str(uuid.uuid4())

    @property
    def commit_user(self) -> str:
        """The name of the builder. Several commits may come from it, so each is recorded under a name of its own."""
        return self._commit_user or self._name

    @property
    def static_partition(self) -> dict[str, object] | None:
        """What an overwrite replaces; None: the write appends."""
        return self._static_partition

    def new_update(self) -> BatchTableUpdate:
        """Return the verbs that change rows of the table."""
        return BatchTableUpdate(self.table, self.commit_user)

    def new_commit(self) -> BatchTableCommit:
        """Open the commit."""
        commit = cast("BatchTableCommit", super().new_commit())
        commit.table, commit.commit_user, commit.overwrite_partition = (
            self.table,
            self.commit_user,
            self._static_partition,
        )
        return commit


class PostponeFixedBucketWriteBuilder(BatchWriteBuilder, core.PostponeFixedBucketWriteBuilder):
    """Starts batch writes into real buckets."""


class StreamWriteBuilder(core.StreamWriteBuilder):
    """Starts stream writes: many commits of one user, each with an identifier that grows."""

    _commit_type = StreamTableCommit

    def __init__(self, table: FileStoreTable) -> None:
        super().__init__(table.refreshed().store)
        self.table = table

    def new_update(self) -> StreamTableUpdate:
        """Return the verbs that change rows of the table."""
        return StreamTableUpdate(self.table, self.commit_user)

    def new_commit(self) -> StreamTableCommit:
        """Open the commit."""
        commit = cast("StreamTableCommit", super().new_commit())
        commit.table, commit.commit_user = self.table, self.commit_user
        return commit
