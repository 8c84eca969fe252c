"""Reads of primary-key tables: whatever is in which level, filters, columns and shares are those of the rows."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from contract.faulty_storage import MemoryStorage
from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.manifest_scan import scan
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.time_travel import resolve_snapshot
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER
from support.effort import examples
from support.keyed_files import KeyedBucket, keyed_rows, new_keyed_table

SCHEMA = pa.schema([("v", pa.int32()), ("k", pa.int32()), ("w", pa.string())])
DEEP = (5, 3, 1)  # from old to young
KEYS = st.integers(0, 11)
VALUES = st.integers(-3, 3) | st.none()
TEXTS = st.sampled_from(["a", "b", "c", None])
Values = tuple[int | None, str | None]

_numbers = itertools.count()


@dataclass(frozen=True)
class Run:
    """Rows of one age: what each key was set to, and whether that deleted it; `cuts` divide a level into files."""

    rows: dict[int, tuple[Values, int]]
    cuts: frozenset[int] = frozenset()


def runs(kinds: st.SearchStrategy[int]) -> st.SearchStrategy[Run]:
    rows = st.dictionaries(KEYS, st.tuples(st.tuples(VALUES, TEXTS), kinds), max_size=8)
    return st.builds(Run, rows, st.frozensets(KEYS, max_size=2))


@dataclass(frozen=True)
class History:
    """The runs of a bucket: one per deep level, from old to young, then the files of level 0."""

    deep: tuple[Run, ...]
    fresh: tuple[Run, ...]

    def versions(self) -> Iterator[tuple[int, Values, int]]:
        """Yield every version of every key, from old to young."""
        for run in (*self.deep, *self.fresh):
            yield from ((key, values, kind) for key, (values, kind) in sorted(run.rows.items()))


def histories(kinds: st.SearchStrategy[int]) -> st.SearchStrategy[History]:
    deep = st.tuples(*(runs(kinds) for _ in DEEP))
    return st.builds(History, deep, st.lists(runs(kinds), max_size=3).map(tuple))


def new_store(options: dict[str, str]) -> TableStore:
    storage = MemoryStorage(f"merge-read-{next(_numbers)}")
    return new_keyed_table(f"{storage.root}/t", SCHEMA, options, storage)


def lay_out(store: TableStore, history: History, *, step: int | None = None) -> KeyedBucket:
    """Write each run of a history into its level; the numbers of a file follow those before, or begin `step` later."""
    bucket = KeyedBucket(store)
    first = 0
    levels = [*zip(DEEP, history.deep, strict=True), *((0, run) for run in history.fresh)]
    for level, run in levels:
        for keys in _pieces(sorted(run.rows), run.cuts if level else frozenset()):
            values = [run.rows[key] for key in keys]
            columns: dict[str, Sequence[object]] = {
                "k": keys,
                "v": [v for (v, _), _ in values],
                "w": [w for (_, w), _ in values],
            }
            bucket.add(keyed_rows(store, columns, first=first, kinds=[kind for _, kind in values]), level=level)
            first += len(keys) if step is None else step
    return bucket


def _pieces(keys: Sequence[int], cuts: frozenset[int]) -> list[list[int]]:
    parts = itertools.groupby(keys, key=lambda key: sum(key >= cut for cut in cuts))
    return [list(part) for _, part in parts]


def table_of(rows: dict[int, Values]) -> pa.Table:
    columns = {"v": [v for v, _ in rows.values()], "k": list(rows), "w": [w for _, w in rows.values()]}
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in SCHEMA})


def deduplicated(history: History) -> dict[int, Values]:
    state: dict[int, Values] = {}
    for key, values, kind in history.versions():
        if kind == DELETE:
            state.pop(key, None)
        else:
            state[key] = values
    return state


def leaves(builder: PredicateBuilder) -> st.SearchStrategy[Predicate]:
    numbers = st.sampled_from(["k", "v"])
    compare = [builder.equal, builder.less_than, builder.greater_or_equal, builder.not_equal]
    return st.one_of(
        st.builds(lambda make, name, value: make(name, value), st.sampled_from(compare), numbers, st.integers(-3, 11)),
        st.builds(lambda value: builder.equal("w", value), st.sampled_from(["a", "b", "c", "d"])),
        st.builds(builder.is_null, st.sampled_from(["v", "w"])),
        st.builds(builder.is_not_null, st.sampled_from(["v", "w"])),
        st.builds(lambda some: builder.is_in("k", some), st.lists(KEYS, min_size=1, max_size=3)),
    )


PREDICATES = st.recursive(
    leaves(PredicateBuilder(new_store({}).schema.fields)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
    ),
    max_leaves=4,
)
PROPERTY = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(store: TableStore, state: dict[int, Values], predicate: Predicate) -> None:
    """Compare reads of a table with what it should hold."""
    want = table_of(state)
    assert counted(ReadBuilder(store).new_read().to_arrow()) == counted(want)
    kept = want.filter(predicate.mask(want))
    filtered = ReadBuilder(store).with_filter(predicate)
    assert counted(filtered.new_read().to_arrow()) == counted(kept)
    for names in (["v"], ["w", "k"]):
        narrow = filtered.with_projection(names).new_read()
        assert counted(narrow.to_arrow()) == counted(kept.select(names))
    shares = [filtered.new_scan().with_shard(at, 3).plan().splits() for at in range(3)]
    read = filtered.new_read()
    assert counted(read.to_arrow([split for share in shares for split in share])) == counted(kept.select(["w", "k"]))
    limited = ReadBuilder(store).with_limit(3).new_read().to_arrow()
    assert limited.num_rows == min(3, want.num_rows)
    assert not counted(limited) - counted(want)


any_kind = st.sampled_from([INSERT, UPDATE_AFTER, DELETE])


@PROPERTY
@given(histories(any_kind), PREDICATES)
def test_the_newest_row_of_each_key_is_read(history: History, predicate: Predicate) -> None:
    store = new_store({})
    lay_out(store, history).publish()
    check(store, deduplicated(history), predicate)


@PROPERTY
@given(histories(any_kind), PREDICATES)
def test_numbers_of_rows_decide_where_those_of_files_overlap(history: History, predicate: Predicate) -> None:
    """The age of a row is its own number, not that of its file: the first run has the highest number of many keys."""
    store = new_store({})
    bucket = lay_out(store, history, step=1)
    bucket.publish()
    newest: dict[int, tuple[int, int, Values]] = {}  # number, kind and values
    for number, keys in enumerate(_files_of(history)):
        for position, (key, (values, kind)) in enumerate(keys):
            row = (number + position, -(kind == DELETE), values)
            if key not in newest or row[:2] > newest[key][:2]:
                newest[key] = row
    ties = [
        (number + position, key)
        for number, keys in enumerate(_files_of(history))
        for position, (key, _) in enumerate(keys)
    ]
    assume(len(set(ties)) == len(ties))  # which of two rows with one number is younger is not defined
    check(store, {key: values for key, (_, dead, values) in newest.items() if not dead}, predicate)


def _files_of(history: History) -> Iterator[list[tuple[int, tuple[Values, int]]]]:
    for at, run in enumerate((*history.deep, *history.fresh)):
        for keys in _pieces(sorted(run.rows), run.cuts if at < len(DEEP) else frozenset()):
            yield [(key, run.rows[key]) for key in keys]


@PROPERTY
@given(histories(st.just(INSERT)), PREDICATES)
def test_partial_updates_read_the_newest_value_of_each_column(history: History, predicate: Predicate) -> None:
    store = new_store({"merge-engine": "partial-update"})
    lay_out(store, history).publish()
    state: dict[int, Values] = {}
    for key, (v, w), _ in history.versions():
        old = state.get(key, (None, None))
        state[key] = (old[0] if v is None else v, old[1] if w is None else w)
    check(store, state, predicate)


@PROPERTY
@given(histories(st.just(INSERT)), PREDICATES, st.sampled_from([{}, {"force-lookup": "true"}]))
def test_aggregations_read_all_rows_of_a_key_folded(
    history: History, predicate: Predicate, options: dict[str, str]
) -> None:
    functions = {"fields.v.aggregate-function": "sum", "fields.w.aggregate-function": "max"}
    store = new_store({"merge-engine": "aggregation", **functions, **options})
    lay_out(store, history).publish()
    state: dict[int, Values] = {}
    levels = [*zip(DEEP, history.deep, strict=True), *((0, run) for run in history.fresh)]
    for level, run in levels:
        for key, ((v, w), _) in run.rows.items():
            # Under force-lookup a deep row has all deeper ones folded in already.
            old = (None, None) if options and level else state.get(key, (None, None))
            numbers, texts = [n for n in (old[0], v) if n is not None], [t for t in (old[1], w) if t is not None]
            state[key] = (sum(numbers) if numbers else None, max(texts) if texts else None)
    check(store, state, predicate)


@PROPERTY
@given(histories(st.just(INSERT)), PREDICATES)
def test_first_row_tables_hide_level_0(history: History, predicate: Predicate) -> None:
    store = new_store({"merge-engine": "first-row"})
    seen: dict[int, Values] = {}
    deep = []
    for run in history.deep:
        rows = {key: found for key, found in run.rows.items() if key not in seen}
        seen |= {key: values for key, (values, _) in rows.items()}
        deep.append(Run(rows, run.cuts))
    lay_out(store, History(tuple(deep), history.fresh)).publish()
    check(store, seen, predicate)


@PROPERTY
@given(histories(any_kind), PREDICATES, st.booleans())
def test_deletion_vectors_leave_out_outdated_rows_of_deep_levels(
    history: History, predicate: Predicate, merges: bool
) -> None:
    store = new_store({"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": str(merges).lower()})
    bucket = lay_out(store, history)
    owners: dict[int, tuple[str, int]] = {}  # where the youngest deep version of each key lies
    for file in bucket.files:
        if file.level:
            positions = _keys_of(bucket, file.file_name)
            for position, key in enumerate(positions):
                if key in owners:
                    name, hidden = owners[key]
                    bucket.vectors.setdefault(name, []).append(hidden)
                owners[key] = file.file_name, position
    bucket.publish()
    seen = history if merges else History(history.deep, ())
    check(store, deduplicated(seen), predicate)


def _keys_of(bucket: KeyedBucket, name: str) -> list[int]:
    path = f"{bucket.store.layout.bucket_directory('', 0)}/{name}"
    found: list[int] = pa.parquet.read_table(pa.BufferReader(bucket.store.storage.read(path)))["k"].to_pylist()
    return found


def _plain(store: TableStore, *files: tuple[int, dict[int, Values]]) -> KeyedBucket:
    """Put files of some levels into a bucket, in the order of their age."""
    bucket = KeyedBucket(store)
    for number, (level, rows) in enumerate(files):
        values = list(rows.values())
        columns: dict[str, list[object]] = {"k": [*rows], "v": [v for v, _ in values], "w": [w for _, w in values]}
        bucket.add(keyed_rows(store, columns, first=100 * number), level=level)
    return bucket


def _left(store: TableStore, predicate: str) -> list[str]:
    """Return the files that a scan leaves."""
    snapshot = resolve_snapshot(store)
    assert snapshot is not None
    bound = ReadBuilder(store).with_filter(predicate).new_scan()
    return [file.file_name for split in bound.plan().splits() for file in split.files]


def test_a_key_filter_drops_single_files() -> None:
    store = new_store({})
    _plain(store, (5, {1: (1, "a"), 5: (1, "a")}), (0, {5: (2, "b"), 9: (2, "b")}), (0, {6: (3, "c")})).publish()
    assert len(_left(store, "k = 1")) == 1
    assert len(_left(store, "k = 5")) == 2
    assert len(_left(store, "k = 20")) == 0


def test_a_value_filter_drops_a_section_only_as_a_whole() -> None:
    store = new_store({})
    bucket = _plain(store, (5, {1: (1, "a"), 5: (1, "a")}), (0, {5: (2, "b")}), (0, {8: (1, "a")}))
    bucket.publish()
    assert len(_left(store, "v = 1")) == 3
    assert len(_left(store, "v = 2")) == 2  # the file of level 5 has no such row, but one that may be hidden
    assert len(_left(store, "v = 3")) == 0
    assert ReadBuilder(store).with_filter("v = 1").new_read().to_arrow()["k"].to_pylist() == [1, 8]


@pytest.mark.parametrize(
    "options",
    [{"merge-engine": "partial-update"}, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}],
)
def test_a_value_filter_drops_no_rows_that_make_up_others(options: dict[str, str]) -> None:
    store = new_store(options)
    _plain(store, (5, {1: (1, "a"), 5: (1, "a")}), (0, {5: (2, "b")}), (0, {8: (1, "a")})).publish()
    assert len(_left(store, "v = 3")) == 2  # the file that is alone is dropped, the two that are merged are not


def test_splits_are_raw_where_nothing_must_be_merged() -> None:
    def raw(store: TableStore) -> list[bool]:
        return [split.raw_convertible for split in ReadBuilder(store).new_scan().plan().splits()]

    one_level = new_store({})
    _plain(one_level, (5, {1: (1, "a")}), (5, {2: (1, "a")})).publish()
    assert raw(one_level) == [True]
    overlapping = new_store({})
    _plain(overlapping, (5, {1: (1, "a")}), (0, {1: (1, "a")})).publish()
    assert raw(overlapping) == [False]
    deleting = new_store({})
    bucket = KeyedBucket(deleting)
    bucket.add(keyed_rows(deleting, {"k": [1, 2], "v": [1, 1], "w": ["a", "b"]}, first=0, kinds=[INSERT, DELETE]))
    bucket.publish()
    assert raw(deleting) == [False]
    assert ReadBuilder(deleting).new_read().to_arrow()["k"].to_pylist() == [1]


def test_sections_become_splits_of_their_own_for_shares() -> None:
    store = new_store({})
    rows: list[dict[int, Values]] = [{at: (at, "a"), at + 1: (at, "a")} for at in (0, 10, 20, 30)]
    _plain(store, *((5, some) for some in rows), *((0, some) for some in rows)).publish()
    assert len(ReadBuilder(store).new_scan().plan().splits()) == 1
    shares = [ReadBuilder(store).new_scan().with_shard(at, 2).plan() for at in range(2)]
    assert [len(share.splits()) for share in shares] == [2, 2]


def test_explain_counts_levels_and_merged_rows() -> None:
    store = new_store({"source.split.target-size": "1 b"})
    _plain(store, (5, {1: (1, "a"), 2: (1, "a")}), (5, {7: (1, "a")}), (0, {2: (2, "b")})).publish()
    result = ReadBuilder(store).explain()
    assert result.is_primary_key_table
    assert result.level_histogram == {0: 1, 5: 2}
    assert (result.split_count, result.splits_raw_convertible, result.splits_all_above_l0) == (2, 1, 1)
    assert (result.estimated_row_count, result.estimated_merged_row_count) == (4, None)
    assert "L0=1  L5=2" in str(result)
    hidden = store.with_schema(store.schema.with_options({"deletion-vectors.enabled": "true"}))
    result = ReadBuilder(hidden).explain()
    assert result.level_histogram == {5: 2}
    assert (result.estimated_row_count, result.estimated_merged_row_count) == (3, 3)


def test_rows_that_wait_for_their_bucket_are_not_seen() -> None:
    store = new_store({"bucket": "-2"})
    _plain(store, (0, {1: (1, "a")})).publish(bucket=-2)
    assert ReadBuilder(store).new_read().to_arrow().num_rows == 0
    merging = store.with_schema(store.schema.with_options({"postpone.merge-on-read": "true"}))
    with pytest.raises(UnsupportedError, match=r"postpone\.merge-on-read"):
        ReadBuilder(merging).new_scan().plan()


def test_tables_sorted_by_other_columns_are_refused() -> None:
    store = new_store({})
    clustered = store.with_schema(store.schema.with_options({"pk-clustering-override": "true"}))
    with pytest.raises(UnsupportedError, match="pk-clustering-override"):
        ReadBuilder(clustered).new_read()


def test_a_missing_file_of_a_section_is_damage(tmp_path: Path) -> None:
    store = new_keyed_table(str(tmp_path), SCHEMA, {})
    bucket = _plain(store, (5, {1: (1, "a")}), (0, {1: (2, "b")}))
    bucket.publish()
    (tmp_path / "bucket-0" / bucket.files[0].file_name).unlink()
    with pytest.raises(CorruptTableError, match="missing"):
        ReadBuilder(store).new_read().to_arrow()


def test_the_funnel_counts_only_files_that_can_be_seen() -> None:
    store = new_store({"deletion-vectors.enabled": "true"})
    _plain(store, (5, {1: (1, "a")}), (0, {1: (2, "b")})).publish()
    snapshot = resolve_snapshot(store)
    assert snapshot is not None
    funnel = scan(store, snapshot).funnel
    assert (funnel.files_total, funnel.files_after_partition, funnel.files_after_stats) == (1, 1, 1)


def test_shares_of_rows_that_must_merge_are_balanced() -> None:
    store = new_store({"bucket": "2", "source.split.target-size": "1 b"})
    first: list[dict[int, Values]] = [{at: (at, "a") for at in range(5)}, {at: (at, "b") for at in range(5)}]
    second: list[dict[int, Values]] = [{at: (at, "a") for at in range(10, 16)}, {at: (at, "b") for at in range(10, 15)}]
    _plain(store, *((0, some) for some in first), *((0, some) for some in second)).publish()
    shares = [ReadBuilder(store).new_scan().with_shard(at, 2).plan().splits() for at in range(2)]
    assert [sum(split.row_count for split in share) for share in shares] == [10, 11]


@pytest.mark.parametrize("key", [0, 777, 4999])
def test_a_key_is_found_where_chunks_are_smaller_than_row_groups(tmp_path: Path, key: int) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.int64()), ("x", pa.int64())])
    store = new_keyed_table(str(tmp_path / "t"), schema, {"lakewright.merge-memory": "64 kb"})
    bucket = KeyedBucket(store)
    numbers = range(5000)
    for run in range(3):
        values = [n * 7919 % 5003 + run for n in numbers]
        bucket.add(keyed_rows(store, {"k": numbers, "v": values, "w": values, "x": values}, first=run * 5000))
    bucket.publish()
    found = ReadBuilder(store).with_filter(f"k = {key}").new_read().to_arrow().to_pylist()
    value = key * 7919 % 5003 + 2
    assert found == [{"k": key, "v": value, "w": value, "x": value}]
