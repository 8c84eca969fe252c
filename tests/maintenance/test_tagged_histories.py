"""States of the past that only tags keep: each is compared with its own index of keys, not with that of another."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.maintenance.rollback import restore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


@pytest.mark.parametrize("seed", range(4))
def test_tags_of_a_table_with_dynamic_buckets_are_sound(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20"}
    options["num-sorted-run.compaction-trigger"] = "3"
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options=options))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    for step in range(24):
        match dice.choice(["upsert", "upsert", "tag", "tag", "restore", "overwrite", "compact"]):
            case "upsert":
                ids = [dice.randint(0, 90) for _ in range(12)]
                lw.write_table(pa.table({"id": ids, "v": ids}, schema=SCHEMA), table)
            case "overwrite":
                ids = [dice.randint(50, 150) for _ in range(30)]
                lw.write_table(pa.table({"id": ids, "v": ids}, schema=SCHEMA), table, "overwrite")
            case "tag" if table.store.snapshots.ids():
                table.create_tag(f"t{step}")
            case "restore" if table.list_tags():
                restore(table.store, dice.choice(table.list_tags()))
            case _:
                table.compact(full=dice.random() < 0.5)
    table.expire_snapshots(retain_max=1, retain_min=1)
    found = table.verify(full=True, snapshots="all")
    assert found.is_sound, found.findings


def test_a_file_that_two_later_tags_lack_is_compared_with_the_index_of_its_own_tag(tmp_path: Path) -> None:
    """The manifests of the later tags still name the file as added and deleted."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"bucket": "-1", "write-only": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=["id"], options=options))
    table = catalog.get_table("d.t")
    assert isinstance(table, lw.FileStoreTable)
    for number in range(4):
        ids = list(range(100 * number, 100 * number + 20))
        lw.write_table(pa.table({"id": ids, "v": ids}, schema=SCHEMA), table, "overwrite")
        table.create_tag(f"t{number}")
    table.expire_snapshots(retain_max=1, retain_min=1)
    found = table.verify(full=True, snapshots="all")
    assert found.is_sound, found.findings
