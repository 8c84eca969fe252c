"""What a job of Spark leaves behind, and its removal: an id of a write in, files gone.

Killed workers clean up nothing, and attempts that failed or lost send no message. Always holds: nothing is removed that
a snapshot names or that a message at hand names, and a failed removal hides no other error: what stays is an orphan.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakewright.commit.files import files_of
from lakewright.commit.message import CommitMessage
from lakewright.errors import LakewrightError, LakewrightWarning
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs import Done, has_losers, ran_again, wait_until_idle
from lakewright.spark.session import is_connect
from lakewright.write.leftovers import remove_leftovers

# A worker whose task was killed may close one more file: Spark gives it two seconds. Connect does not even show when
# the task is over.
_QUIET_SECONDS, _QUIET_SECONDS_CONNECT = 0.5, 3.0
_SWEEPS_MAX = 10
_LOSERS_SECONDS_MAX = 10.0


def clean_up(spark: SparkSession, store: TableStore, write_id: str) -> None:
    """Remove the files of a write that failed, until no new ones appear."""
    sweep(store, write_id, quiet=_QUIET_SECONDS_CONNECT if is_connect(spark) else _QUIET_SECONDS)


def sweep(store: TableStore, write_id: str, *, quiet: float = _QUIET_SECONDS) -> None:
    """Remove the files of a write until none appear for some seconds: tasks that were killed may still close some."""
    try:
        remove_leftovers(store, write_id)
        for _ in range(_SWEEPS_MAX):
            time.sleep(quiet)
            if not remove_leftovers(store, write_id):
                return
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def remove_losers(
    spark: SparkSession, store: TableStore, write_id: str, done: Sequence[Done], messages: Sequence[CommitMessage]
) -> None:
    """Remove the files of attempts that others overtook, where there may be any."""
    speculates = spark.conf.get("spark.speculation", "false") == "true"
    if not (speculates or has_losers(done) or ran_again(spark, write_id)):
        return
    wait_until_idle(spark, write_id, seconds_max=_LOSERS_SECONDS_MAX)
    remove_all_but(store, write_id, messages)


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
