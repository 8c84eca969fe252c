"""Processes of all roles at once on the same tables, on each kind of store, with everything that can go wrong.

    make nightly PART=chaos-disk                         25 minutes, with a seed of its own
    make nightly PART=chaos-s3 MINUTES=5 SEED=17         as long as wanted, with the dice of an earlier run

MINUTES are those of one kind of store: the parts of REST servers and of SQL catalogs have two each.

Writers of every verb, compaction, expiry, removal of orphans, tags, branches, rewinds, changes of schemas, streams,
replays, drops and renames run beside each other, are killed and stopped for longer than any timeout, and have clocks
that are wrong by hours. From time to time all of them rest, and everything is compared with what the acknowledgements
allow: `support/chaos/model.py` has the rules. A seed gives the same tables and the same dice; what the scheduler of the
machine does it does not give. A failure prints the seed and keeps the directory with the journals and the tables.

Two tables are only written to, the histories of two others are rewound as well: rollbacks leave more than one answer
open, and what is exact should stay exact.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest

import lakewright as lw
from support.chaos.checker import Checker, describe
from support.chaos.faults import Crew
from support.chaos.journal import load
from support.chaos.roles import DATABASE, ROLES, TableKind
from support.chaos.stores import STORES, Store

MINUTES = float(os.environ.get("MINUTES") or 0.5)
SEED = os.environ.get("SEED") or str(random.SystemRandom().randrange(10**6))
FEW = os.environ.get("CHAOS_ROLES")  # to look for the cause of a failure: roles, with commas between them


@pytest.mark.parametrize("kind", STORES)
def test_nothing_is_lost_and_nothing_twice(kind: str) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{kind}-"))
    told = f"\nchaos on {kind}: SEED={SEED}, {directory}"
    print(told, flush=True)
    with STORES[kind](directory, SEED) as store:
        try:
            _run(store, directory)
        except BaseException:
            store.keep(directory)
            print(f"{told}: kept", flush=True)
            raise
    shutil.rmtree(directory)


def _run(store: Store, directory: Path) -> None:
    dice = random.Random(SEED)
    tables = [_table(dice, *of) for of in (("log", 0, 0), ("keyed", 1, 0), ("past_log", 0, 1), ("past_keyed", 1, 1))]
    catalog = lw.CatalogFactory.create(dict(store.options))
    catalog.create_database(DATABASE)
    for table in tables:
        print(f"  {table.name}: {'partitions, ' * table.partitioned}{dict(table.options)}")
        catalog.create_table(table.path, table.schema())
    for name in ("journals", "messages"):
        (directory / name).mkdir()
    roles = FEW.split(",") if FEW else [*ROLES, *store.more_roles]
    crew = Crew(roles, store.options, tables, directory, SEED, store.stop_seconds, store.lateness)
    checker = Checker(catalog, tables, directory, dice, store.removes_orphans_after)
    ends, epoch = time.monotonic() + MINUTES * 60, 0
    try:
        while (left := ends - time.monotonic()) > 1:
            checker.settle()
            seconds = min(dice.uniform(*store.epoch_seconds), left)
            with store.faults():
                wrong = crew.run(seconds)
            journals = sorted((directory / "journals").iterdir())
            operations = load(journals, crew.deaths, crew.lateness)
            last = time.monotonic() + seconds > ends
            wrong += checker.check(operations, clean=last or dice.random() < 0.3)
            assert not wrong, f"chaos on {store.name}, SEED={SEED}, epoch {epoch}:\n" + "\n".join(wrong)
            done = directory / f"epoch-{epoch}"
            done.mkdir()
            for journal in journals:
                journal.rename(done / journal.name)
            epoch += 1
    finally:
        print(describe(checker, crew.counts | store.counts | {"epochs": epoch, "processes": crew.lives}), flush=True)


def _table(dice: random.Random, name: str, keyed: int, rewound: int) -> TableKind:
    """Return a table with random options."""
    plain = [
        {},
        {"deletion-vectors.enabled": "true"},
        {"row-tracking.enabled": "true"},
        {"bucket": "2", "bucket-key": "k"},
    ]
    merged = [
        {"bucket": "2"},
        {"bucket": "-1", "dynamic-bucket.target-row-num": "50"},
        {"bucket": "1", "deletion-vectors.enabled": "true"},
        {"bucket": "1", "changelog-producer": dice.choice(["input", "lookup", "full-compaction"])},
    ]
    options = dict(dice.choice(merged if keyed else plain))
    options |= {"commit.max-retries": "30", "manifest.merge-min-count": str(dice.randint(3, 20))}
    if dice.random() < 0.5:
        options["write-only"] = "true"
    if keyed:
        options["num-sorted-run.compaction-trigger"] = str(dice.randint(2, 6))
    if dice.random() < 0.4:
        options |= {"snapshot.num-retained.max": "12", "snapshot.num-retained.min": "4"}
        options |= dice.choice([{}, {"lakewright.expire.grace": "0 s"}])
    return TableKind(name, bool(keyed), dice.random() < 0.5, bool(rewound), options)
