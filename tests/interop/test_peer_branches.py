"""Branches, tags and rollbacks: made by us and read by pypaimon, made by pypaimon and read by us."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.peers import PYTHON, Peers

pytestmark = pytest.mark.peers

COLUMNS = pa.schema({"n": pa.int64()})
PEER_PROGRAM = """
import sys
import pyarrow as pa
from pypaimon import CatalogFactory

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
columns = pa.schema([("n", pa.int64())])


def write(name, value):
    builder = catalog.get_table(name).new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"n": [value]}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


for value in (1, 2, 3):
    write("d.t", value)
    catalog.create_tag("d.t", f"v{value}", time_retained="1 d" if value == 2 else None)
catalog.create_branch("d.t", "dev", "v1")
catalog.create_branch("d.t", "empty")
write("d.t$branch_dev", 10)
catalog.rename_branch("d.t", "dev", "prod")
write("d.t$branch_prod", 11)
catalog.get_table("d.t").rollback_to("v2")
"""


def write(table: lw.FileStoreTable, n: int) -> None:
    lw.write_table(pa.table({"n": [n]}, schema=COLUMNS), table)


def ours(catalog: lw.Catalog, name: str) -> list[int]:
    return sorted(lw.read_table(catalog.get_table(name))["n"].to_pylist())


def theirs(peers: Peers, catalog: lw.Catalog, name: str) -> list[int]:
    found = peers.read("pypaimon", Path(catalog.warehouse), name)
    return [] if found is None else sorted(found["n"].to_pylist())


def test_pypaimon_reads_our_branches_and_rollbacks(catalog: lw.Catalog, peers: Peers) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    for n in (1, 2, 3):
        write(table, n)
        table.create_tag(f"v{n}")
    table.create_branch("dev", "v1")
    write(catalog.get_table("d.t$branch_dev"), 10)
    table.rename_branch("dev", "prod")
    assert theirs(peers, catalog, "d.t$branch_prod") == [1, 10]
    table.rollback_to(2)
    assert theirs(peers, catalog, "d.t") == [1, 2]
    write(table, 4)
    assert theirs(peers, catalog, "d.t") == [1, 2, 4]
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.rollback_to("v2")
    assert theirs(peers, catalog, "d.t") == [1, 2]
    table.fast_forward("prod", allow_loss=True)
    assert theirs(peers, catalog, "d.t") == [1, 10]
    write(table, 5)
    assert (theirs(peers, catalog, "d.t"), theirs(peers, catalog, "d.t$branch_prod")) == ([1, 5, 10], [1, 10])


def test_we_read_pypaimons_branches_and_rollbacks(catalog: lw.Catalog) -> None:
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    done = subprocess.run(
        [str(PYTHON), "-c", PEER_PROGRAM, str(catalog.warehouse)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    table = catalog.get_table("d.t")
    assert (catalog.list_branches("d.t"), sorted(table.list_tags())) == (["empty", "prod"], ["v1", "v2"])
    assert (ours(catalog, "d.t"), ours(catalog, "d.t$branch_prod")) == ([1, 2], [1, 10, 11])
    assert ours(catalog, "d.t$branch_empty") == []
    assert catalog.get_tag("d.t", "v2").time_retained is not None
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert (ours(catalog, "d.t"), ours(catalog, "d.t$branch_prod")) == ([1, 2], [1, 10, 11])
    table.rollback_to("v1")
    assert ours(catalog, "d.t") == [1]
    table.fast_forward("prod", allow_loss=True)
    assert (ours(catalog, "d.t"), table.list_tags()) == ([1, 10, 11], ["v1"])
    table.drop_branch("prod")
    table.drop_branch("empty")
    assert (ours(catalog, "d.t"), table.list_branches()) == ([1, 10, 11], [])
