"""A table must read like a dict whatever is compacted when, and its changelog must replay to the same dict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lakewright.compact.compaction_job import compact_table
from lakewright.lsm.sorted_runs import runs_of
from lakewright.metadata.table_store import TableStore
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER
from support.effort import each_once, some
from support.keyed_tables import Change, changelog_of, commit_rows, keyed_store, levels, live, read

pytestmark = pytest.mark.long

Model = dict[int, tuple[int | None, str | None]]
VECTORS = {"deletion-vectors.enabled": "true"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction"}
DEDUPE = {"changelog-producer.row-deduplicate": "true"}
BITMAP64 = {"deletion-vectors.bitmap64": "true"}
SMALL = {"target-file-size": "1 kb", "num-sorted-run.compaction-trigger": "3", "num-levels": "4"}


def _ballast(rng: np.random.Generator, model: Model) -> list[Change]:
    """Return rows that nobody changes, so that the deepest level is large and later rows stay above it."""
    rows = {k: (k, rng.bytes(30).hex()) for k in range(1000, 1200)}
    model.update(rows)
    return [(INSERT, k, v, w) for k, (v, w) in rows.items()]


def _batch(rng: np.random.Generator, *, deletes: bool) -> list[Change]:
    size = int(rng.integers(1, 12))
    keys = rng.choice(40, size=size, replace=False).tolist()
    kinds = [DELETE if deletes and rng.random() < 0.3 else INSERT for _ in keys]
    return [(kind, k, int(rng.integers(0, 3)), f"t{rng.integers(0, 3)}") for kind, k in zip(kinds, keys, strict=True)]


def _apply(model: Model, batch: list[Change], *, first_row: bool) -> None:
    for kind, k, v, w in batch:
        if kind == DELETE:
            model.pop(k, None)
        elif not (first_row and k in model):
            model[k] = (v, w)


def _replay(store: TableStore, state: Model, first: int, last: int) -> None:
    for _, kind, k, v, w in changelog_of(store, first, last):
        if kind in {INSERT, UPDATE_AFTER}:
            assert kind == UPDATE_AFTER or k not in state
            state[k] = (v, w)
        else:
            assert state.pop(k) == (v, w)


OPTIONS = [
    {},
    {"compaction.force-up-level-0": "true"},
    VECTORS,
    {**VECTORS, **BITMAP64},
    LOOKUP,
    {**LOOKUP, **DEDUPE},
    {**LOOKUP, **VECTORS},
    {"force-lookup": "true"},
    FULL,
    {**FULL, **DEDUPE},
    {"merge-engine": "first-row"},
    {"merge-engine": "first-row", **LOOKUP},
    {**SMALL},
    {**SMALL, **VECTORS},
    {**SMALL, **LOOKUP, **VECTORS},
    {"file.format": "avro"},
    {"file.format": "orc", **VECTORS},
    {"file.format.per.level": "0:avro", **VECTORS},
]


@pytest.mark.parametrize(("seed", "options"), some([*enumerate(OPTIONS)], 0, 3, 5, 6, 9, 11, 14, 16), ids=str)
def test_a_compacted_table_and_its_changelog_read_like_a_dict(
    tmp_path: Path, options: dict[str, str], seed: int
) -> None:
    store = keyed_store(tmp_path / "t", options)
    rng = np.random.default_rng(seed)
    first_row = options.get("merge-engine") == "first-row"
    producer = options.get("changelog-producer")
    model: Model = {}
    replayed: Model = {}
    seen = 0
    for number in range(10):
        batch = _ballast(rng, {}) if number == 0 and seed % 2 else _batch(rng, deletes=not first_row)
        published = commit_rows(store, batch)
        _apply(model, batch, first_row=first_row)
        full = bool(rng.random() < 0.25)
        hidden = first_row or "deletion-vectors.enabled" in options
        if hidden or full or rng.random() < 0.8:
            compact_table(store, full=full)
        assert read(store) == model
        newest = store.snapshots.latest()
        assert newest is not None
        _replay(store, replayed, seen + 1, newest.id)
        seen = newest.id
        if producer == "lookup" and newest.id > published.id:
            assert replayed == model
        if producer == "full-compaction" and full:
            assert replayed == model
    assert len(runs_of(entry.file for entry in live(store))) < 9
    compact_table(store, full=True)
    assert read(store) == model
    assert set(levels(store)) <= {store.options.level_count - 1}


def _sum(old: tuple[int | None, str | None], v: int | None, w: str | None) -> tuple[int | None, str | None]:
    total = old[0] if v is None else v if old[0] is None else old[0] + v
    return total, old[1] if w is None else w


def _newest(old: tuple[int | None, str | None], v: int | None, w: str | None) -> tuple[int | None, str | None]:
    return (v, w) if old[0] is None or (v is not None and v >= old[0]) else old


def _filled(old: tuple[int | None, str | None], v: int | None, w: str | None) -> tuple[int | None, str | None]:
    return old[0] if v is None else v, old[1] if w is None else w


ENGINES = {
    "aggregation": ({"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}, _sum),
    "partial-update": ({"merge-engine": "partial-update"}, _filled),
    "sequence field": ({"sequence.field": "v"}, _newest),
}


@pytest.mark.parametrize(
    ("options", "engine"),
    each_once([{}, VECTORS, LOOKUP, {**LOOKUP, **VECTORS, **SMALL}, {"force-lookup": "true"}, FULL], list(ENGINES)),
    ids=str,
)
def test_merging_engines_read_like_a_dict_whatever_is_compacted_when(
    tmp_path: Path, options: dict[str, str], engine: str
) -> None:
    more, merged = ENGINES[engine]
    store = keyed_store(tmp_path / "t", {**options, **more})
    rng = np.random.default_rng(7)
    model: Model = {}
    replayed: Model = {}
    seen: set[int] = set()
    for number in range(10):
        batch = _ballast(rng, model) if number == 0 else []
        for k in rng.choice(40, size=int(rng.integers(1, 12)), replace=False).tolist():
            v = None if rng.random() < 0.2 else int(rng.integers(0, 50))
            w = None if rng.random() < 0.3 else f"t{rng.integers(0, 9)}"
            batch.append((INSERT, k, v, w))
            model[k] = merged(model.get(k, (None, None)), v, w) if k in model else (v, w)
        before = commit_rows(store, batch)
        full = number % 5 == 4
        result = compact_table(store, full=full)
        assert read(store) == model
        newest = store.snapshots.latest()
        assert newest is not None
        _replay(store, replayed, before.id, newest.id)
        if options.get("changelog-producer") == "lookup" or (options == FULL and full):
            assert result.snapshot_id == newest.id
            assert replayed == model
        seen |= set(levels(store))
    assert len(seen) > 1


@pytest.mark.parametrize("options", [VECTORS, LOOKUP, {**VECTORS, **LOOKUP}, {"force-lookup": "true"}], ids=str)
def test_what_is_taken_from_nothing_counts_for_rows_to_come(tmp_path: Path, options: dict[str, str]) -> None:
    store = keyed_store(tmp_path / "t", {**ENGINES["aggregation"][0], **options})
    commit_rows(store, [(DELETE, 1, 5, None), (INSERT, 2, 1, "a")])
    compact_table(store)
    assert read(store) == {1: (-5, None), 2: (1, "a")}
    commit_rows(store, [(INSERT, 1, 7, "b"), (DELETE, 2, 3, None)])
    compact_table(store)
    assert read(store) == {1: (2, "b"), 2: (-2, "a")}
    replayed: Model = {}
    _replay(store, replayed, 1, 4)
    assert replayed == (read(store) if "changelog-producer" in options else {})
