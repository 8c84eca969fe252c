"""Files that tasks leave behind: the id of a write in, files that no snapshot will name removed.

Always holds: a removal that fails is a warning and hides no other error; what stays is an orphan.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

from lakewright.commit.files import files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.metadata.store import TableStore
from lakewright.write.leftovers import remove_leftovers

QUIET_SECONDS = 0.5  # a worker whose task was killed may close one more file
_ROUNDS_MAX = 10


def remove_all(store: TableStore, write_id: str, *, quiet_seconds: float = QUIET_SECONDS) -> None:
    """Remove the files of a write until none appear for some seconds: tasks that were killed may still close some."""
    try:
        remove_leftovers(store, write_id)
        for _ in range(_ROUNDS_MAX):
            time.sleep(quiet_seconds)
            if not remove_leftovers(store, write_id):
                return
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def remove_all_but(store: TableStore, write_id: str, messages: Sequence[CommitMessage]) -> None:
    """Remove the files of a write that no message names, from the buckets that the messages touch."""
    keep = {file.name for file in files_of(store, messages)}
    places = {(message.partition_bytes, message.bucket) for message in messages}
    try:
        remove_leftovers(store, write_id, keep=keep, places=places)
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def _warn(store: TableStore, write_id: str, error: Exception) -> None:
    warnings.warn(
        f"{store.name}: files of the write {write_id} may be left behind ({error}); no snapshot names them, and "
        "table.remove_orphan_files() removes them once they are old enough",
        LakewrightWarning,
        stacklevel=4,
    )
