"""Histories that we changed: Java reads every snapshot, tag and branch as we do, writes on top, expires the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.golden import in_order
from support.java import Java

COLUMNS = pa.schema([pa.field("k", pa.int32(), nullable=False), pa.field("v", pa.string())])
KEPT = {"changelog.num-retained.max": "20"}
VECTORS = {"deletion-vectors.enabled": "true"}
FORMS: dict[str, tuple[list[str], dict[str, str]]] = {
    "append": ([], {}),
    "append, vectors": ([], VECTORS),
    "keyed": (["k"], {"bucket": "1"}),
    "keyed, vectors": (["k"], {"bucket": "1"} | VECTORS),
    "keyed, input": (["k"], {"bucket": "1", "changelog-producer": "input"}),
    "keyed, lookup, vectors": (["k"], {"bucket": "1", "changelog-producer": "lookup"} | VECTORS),
    "keyed, input, kept": (["k"], {"bucket": "1", "changelog-producer": "input"} | KEPT),
    "keyed, lookup, kept": (["k"], {"bucket": "1", "changelog-producer": "lookup"} | KEPT),
}


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def write(table: lw.FileStoreTable, *keys: int, value: str) -> None:
    lw.write_table(pa.table({"k": keys, "v": [value] * len(keys)}, schema=COLUMNS), table)
    if table.primary_keys and VECTORS.items() <= dict(table.options.values).items():
        table.compact(full=True)  # only then the rows are seen


def make(catalog: lw.Catalog, form: str) -> lw.FileStoreTable:
    """Make a table with a tag of its first state, a branch of that tag, and a tag of a late one."""
    keys, options = FORMS[form]
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    write(table, 1, 2, value="first")
    table.create_tag("v1")
    table.create_branch("b", "v1")
    branch = catalog.get_table("d.t$branch_b")
    write(branch, 20, 21, value="branch")
    write(branch, 2, 22, value="branch")
    write(table, 2, 3, value="second")
    table.delete("k = 1")
    write(table, 4, value="third")
    table.compact(full=True)
    write(table, 5, value="fourth")
    table.create_tag("v5")
    if "kept" in form:
        table.expire_snapshots(retain_max=3, retain_min=3)
        branch.expire_snapshots(retain_max=1, retain_min=1)
        assert table.store.changelogs.ids()
    return table


def middle(table: lw.FileStoreTable) -> int:
    ids = table.store.snapshots.ids()
    return ids[len(ids) // 2]


def forward_renamed(table: lw.FileStoreTable) -> None:
    table.rename_branch("b", "c")
    table.fast_forward("c", allow_loss=True)


VERBS: dict[str, Callable[[lw.FileStoreTable], object]] = {
    "rollback": lambda table: table.rollback_to(middle(table)),
    "rollback to a tag": lambda table: table.rollback_to("v1"),
    "restore": lambda table: table.rollback_to_as_latest(middle(table)),
    "forward": lambda table: table.fast_forward("b", allow_loss=True),
    "rename a branch and forward": forward_renamed,
    "delete a tag": lambda table: table.delete_tag("v1"),
}


def check_same(java: Java, warehouse: Path, catalog: lw.Catalog, *, tags: bool = True) -> int:
    """Compare what Java and we read of every branch, snapshot and tag; return how many states were compared."""
    compared = 0
    for branch in ("main", *catalog.get_table("d.t").list_branches()):
        name = "d.t" if branch == "main" else f"d.t$branch_{branch}"
        table = catalog.get_table(name)
        reads: list[dict[str, str]] = [{}]
        reads += [{"scan.snapshot-id": str(number)} for number in table.store.snapshots.ids()]
        if branch == "main" and tags:  # Java looks for the tags of a branch among those of the table
            reads += [{"scan.tag-name": tag} for tag in table.list_tags()]
        for options in reads:
            ours = [list(row.values()) for row in lw.read_table(table.copy(options)).to_pylist()]
            assert in_order(java.read(warehouse, name, **options)) == in_order(ours), (name, options)
            compared += 1
    return compared


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("form", FORMS)
def test_java_reads_and_continues_a_changed_history(
    java: Java, catalog: lw.Catalog, tmp_path: Path, form: str, verb: str
) -> None:
    warehouse = tmp_path / "warehouse"
    table = make(catalog, form)
    VERBS[verb](table)
    assert table.verify(full=True, snapshots="all").is_sound
    assert check_same(java, warehouse, catalog) > 3
    java.ask("write", str(warehouse), "d", "t", "+I|7|java", "+I|2|java")
    if "vectors" in form and table.primary_keys:
        java.compact(warehouse, "d.t")
    check_same(java, warehouse, catalog)
    assert "java" in lw.read_table(catalog.get_table("d.t"))["v"].to_pylist()
    # Java's commits expire what is beyond the retention, and what is left can be read by both. Java's expiry does not
    # look at branches, which lose files that they share with the table.
    for branch in catalog.get_table("d.t").list_branches():
        catalog.drop_branch("d.t", branch)
    java.set(warehouse, "d.t", {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"})
    java.ask("write", str(warehouse), "d", "t", "+I|8|java")
    table = catalog.get_table("d.t")
    assert len(table.store.snapshots.ids()) <= 3
    # Of files that come back and go again, Java keeps only those of the nearest tag: older tags may lose theirs.
    tags = verb != "restore"
    check_same(java, warehouse, catalog, tags=tags)
    table.expire_snapshots(retain_max=1, retain_min=1)
    check_same(java, warehouse, catalog, tags=tags)
    findings = catalog.get_table("d.t").verify(full=True, snapshots="all" if tags else "latest").findings
    assert [finding for finding in findings if finding.severity == "error"] == []
