"""What a job of Spark leaves behind, and its removal: an id of a write in, files gone.

Killed workers clean up nothing, and attempts that failed or lost send no message. Always holds: nothing is removed that
a snapshot names or that a message at hand names, and a failed removal hides no other error: what stays is an orphan.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakewright.commit.message import CommitMessage
from lakewright.distributed import remove_all_but, sweep
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs import Done, has_losers, ran_again, wait_until_idle
from lakewright.spark.session import is_connect

# A worker whose task was killed may close one more file: Spark gives it two seconds. Connect does not even show when
# the task is over.
_QUIET_SECONDS, _QUIET_SECONDS_CONNECT = 0.5, 3.0
_LOSERS_SECONDS_MAX = 10.0


def clean_up(spark: SparkSession, store: TableStore, write_id: str) -> None:
    """Remove the files of a write that failed, until no new ones appear."""
    sweep(store, write_id, quiet=_QUIET_SECONDS_CONNECT if is_connect(spark) else _QUIET_SECONDS)


def remove_losers(
    spark: SparkSession, store: TableStore, write_id: str, done: Sequence[Done], messages: Sequence[CommitMessage]
) -> None:
    """Remove the files of attempts that others overtook, where there may be any."""
    speculates = spark.conf.get("spark.speculation", "false") == "true"
    if not (speculates or has_losers(done) or ran_again(spark, write_id)):
        return
    wait_until_idle(spark, write_id, seconds_max=_LOSERS_SECONDS_MAX)
    remove_all_but(store, write_id, messages)
