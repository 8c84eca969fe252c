"""Order compaction: the rows stay, the files are sorted, the statistics rule files out, memory is bounded."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.compact import clustering_key, sort_compaction
from lakewright.compact.clustering_key import OrderKey
from lakewright.spec.arrow_take import take_rows
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import AtomicType, DataField
from support.effort import each_once, some

SMALL = {"target-file-size": "6 kb", "file.block-size": "4 kb"}
STRATEGIES = ["order", "zorder", "hilbert"]


def made(root: Path, columns: pa.Schema, options: dict[str, str], **more: object) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=options, **more))  # type: ignore[arg-type]
    return catalog.get_table("d.t")


def points(root: Path, options: dict[str, str], *, commits: int = 6, rows: int = 4000) -> lw.FileStoreTable:
    """Return a table of points in no order."""
    table = made(root, pa.schema({"x": pa.int64(), "y": pa.float64(), "id": pa.int64()}), options)
    rng = np.random.default_rng(1)
    for number in range(commits):
        ids = np.arange(rows) + number * rows
        columns = {"x": rng.integers(0, 1000, rows), "y": rng.random(rows), "id": ids}
        lw.write_table(pa.table(columns), table)
    return table


def contents(table: lw.FileStoreTable) -> pa.Table:
    return lw.read_table(table).sort_by("id")


def opened(table: lw.FileStoreTable, where: str) -> tuple[int, int]:
    """Return how many files a query opens, and how many there are."""
    reader = table.new_read_builder()
    found = reader.with_filter(where).new_scan().plan().splits()
    return sum(len(split.files) for split in found), sum(
        len(split.files) for split in table.new_read_builder().new_scan().plan().splits()
    )


MEMORY = ["256 mb", "100 kb"]  # the rows fit, or are spilled


@pytest.mark.parametrize(
    ("strategy", "memory"),
    some(list(product(STRATEGIES, MEMORY)), 0, 1, 2, 5),
)
def test_sorted_rows_stay_and_queries_open_few_files(tmp_path: Path, strategy: str, memory: str) -> None:
    table = points(tmp_path, {**SMALL, "lakewright.merge-memory": memory})
    before = contents(table)
    result = table.compact(order_by=["x", "y"], strategy=strategy)  # type: ignore[arg-type]
    assert (result.rows, result.partitions) == (24000, 1)
    assert contents(table).equals(before)
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.commit_kind.value == "COMPACT"
    found, total = opened(table, "x = 300 AND y > 0.3 AND y < 0.31")
    assert total >= 30
    assert found <= total * 0.2
    first, second = (opened(table, where)[0] for where in ("x > 300 AND x < 310", "y > 0.3 AND y < 0.31"))
    assert first <= total * 0.25
    if strategy == "order":  # serves the first column alone, and sorts exactly
        assert second > total * 0.9
        x, y = (column.to_numpy() for column in lw.read_table(table, columns=["x", "y"]).columns)
        assert np.lexsort((y, x)).tolist() == list(range(24000))
    else:
        assert second <= total * 0.25


def _columns(kind: str, rows: int) -> tuple[pa.Array, pa.Array]:
    """Return two columns of values in no order."""
    rng = np.random.default_rng(7)
    one, other = rng.integers(0, 1_000_000, rows), rng.integers(0, 1_000_000, rows)
    match kind:
        case "ints":
            return pa.array(one), pa.array(other.astype(np.int32))
        case "doubles":
            return pa.array(rng.random(rows) * 1e9), pa.array(rng.normal(size=rows))
        case "timestamps":
            times = pa.array(1_700_000_000_000_000 + one * 31_000_000, pa.timestamp("us"))
            return times, pa.array(other.astype(np.int32) // 100, pa.date32())
        case "texts":
            words = [f"customer-{number:07d}" for number in one.tolist()]
            return pa.array(words), pa.array([f"{number * 7919 % 1_000_003:x}" for number in other.tolist()])
        case _:  # few large values, and many rows with the same one
            return pa.array(np.minimum(rng.zipf(1.3, rows), 10**9)), pa.array(np.exp(rng.normal(size=rows) * 3))


@pytest.mark.parametrize(
    ("kind", "strategy"), each_once(["ints", "doubles", "timestamps", "texts", "skewed"], ["zorder", "hilbert"])
)
def test_a_point_in_two_columns_is_found_in_few_files(tmp_path: Path, strategy: str, kind: str) -> None:
    one, other = _columns(kind, 20_000)
    table = made(tmp_path, pa.schema({"a": one.type, "b": other.type}), {"target-file-row-num": "900"})
    lw.write_table(pa.table({"a": one, "b": other}), table)
    table.compact(order_by=["a", "b"], strategy=strategy)  # type: ignore[arg-type]
    where = lw.PredicateBuilder(table.fields)
    total = sum(len(split.files) for split in table.new_read_builder().new_scan().plan().splits())
    shares = []
    for row in range(0, 20_000, 400):
        point = where.and_predicates([where.equal("a", one[row].as_py()), where.equal("b", other[row].as_py())])
        reader = table.new_read_builder()
        files = sum(len(split.files) for split in reader.with_filter(point).new_scan().plan().splits())
        shares.append(files / total)
    assert max(shares) <= 0.2
    assert np.mean(shares) <= 0.1


@pytest.mark.parametrize("strategy", ["zorder", "hilbert"])
def test_sorted_files_are_not_small(tmp_path: Path, strategy: str) -> None:
    table = points(tmp_path, {"target-file-row-num": "1000"})
    table.compact(order_by=["x", "y"], strategy=strategy)  # type: ignore[arg-type]
    snapshot = table.snapshot()
    assert snapshot is not None
    rows = [entry.file.row_count for entry in table.store.manifests.live(snapshot)]
    assert sum(rows) == 24000
    assert max(rows) <= 1000
    assert len(rows) <= 24 / 0.7
    assert sum(count < 500 for count in rows) <= 1


def test_texts_that_begin_alike_rule_files_out(tmp_path: Path) -> None:
    numbers = np.random.default_rng(4).permutation(6000).tolist()
    texts = [f"https://example.org/customers/{number:06}" for number in numbers]
    table = made(tmp_path, pa.schema({"u": pa.string(), "v": pa.string()}), {"target-file-row-num": "500"})
    lw.write_table(pa.table({"u": texts, "v": texts}), table)
    for strategy in STRATEGIES:
        table.compact(order_by=["u"], strategy=strategy)  # type: ignore[arg-type]
        assert opened(table, f"u = '{texts[17]}'") == (1, 12), strategy
        assert opened(table, f"v = '{texts[17]}'") == (12, 12), strategy  # its bounds are as short as the option says
    own = table.copy({"fields.u.stats-mode": "truncate(16)"})
    own.compact(order_by=["u"])
    assert opened(own, f"u = '{texts[17]}'") == (12, 12)


def test_texts_with_different_beginnings_are_divided_evenly() -> None:
    field = DataField(0, "v", AtomicType("STRING"))
    kinds = ["http://", "https://www."]
    texts = [f"{kinds[number % 2]}example.org/{number * 7919 % 20_011:06}" for number in range(20_000)]
    key = OrderKey.of_sample("order", [field], pa.table({"v": texts})).coarser(8)
    rows = pa.table({"v": [None, "", "a", *sorted(texts), "https://zzz", "z"]})
    numbers = key.range_of(rows).tolist()
    assert numbers == sorted(numbers)
    assert np.bincount(numbers).max() <= 2600


def test_parts_cover_all_rows_and_end_with_files() -> None:
    rng = np.random.default_rng(5)
    fields = [DataField(0, "a", AtomicType("BIGINT")), DataField(1, "b", AtomicType("BIGINT"))]
    heavy = np.where(rng.random(40_000) < 0.5, rng.integers(0, 5, 40_000), rng.integers(0, 10**9, 40_000))
    sample = pa.table({"a": heavy, "b": rng.integers(0, 1000, 40_000)})
    for strategy in STRATEGIES:
        key = OrderKey.of_sample(strategy, fields, sample, 20.0)
        parts = key.parts(4)
        assert len(parts) == key.part_key(4).ranges
        assert 3 <= len(parts) <= 4
        counts = [int(part.counts.sum()) for part in parts]
        assert sum(counts) == 40_000
        assert max(counts) <= 14_000
        assert np.bincount(key.part_key(4).range_of(sample)).tolist() == counts
        if key.quantiles:
            assert set(key.part_key(4).cuts[0].tolist()) <= set(key.files.tolist())


def test_a_sort_stays_within_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 20 MB are sorted with 8 MB. What Arrow holds is looked at whenever a group of rows is handed over."""
    table = made(
        tmp_path, pa.schema({"x": pa.int64(), "y": pa.float64(), "t": pa.string()}), {"target-file-size": "2 mb"}
    )
    rng = np.random.default_rng(6)
    for _ in range(8):
        rows = {
            "x": rng.integers(0, 10**6, 50_000),
            "y": rng.random(50_000),
            "t": pa.array(["0123456789abcdef01234"] * 50_000),
        }
        lw.write_table(pa.table(rows), table)
    seen, plain = [0], take_rows

    def watched(rows: pa.Table, positions: np.ndarray) -> pa.Table:
        seen[0] = max(seen[0], pa.total_allocated_bytes())
        return plain(rows, positions)

    monkeypatch.setattr(sort_compaction, "take_rows", watched)
    held = pa.total_allocated_bytes()
    options = {"lakewright.merge-memory": "8 mb", "lakewright.write-threads": "1"}
    assert table.copy(options).compact(order_by=["x", "y"], strategy="zorder").rows == 400_000
    assert seen[0] - held <= 12 << 20


def test_deleted_rows_go_and_row_ids_stay(tmp_path: Path) -> None:
    options = {**SMALL, "row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
    table = points(tmp_path, options, commits=3, rows=500)
    table.delete("id >= 100 AND id < 700")
    columns = ["_ROW_ID", "_SEQUENCE_NUMBER", "x", "y", "id"]
    before = sorted(lw.read_table(table, columns=columns).to_pylist(), key=lambda row: row["_ROW_ID"])
    table.compact(order_by="x", strategy="zorder")
    after = sorted(lw.read_table(table, columns=columns).to_pylist(), key=lambda row: row["_ROW_ID"])
    assert after == before
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.index_manifest is None or table.store.manifests.read_index(snapshot.index_manifest) == []


def test_partitions_are_sorted_one_by_one(tmp_path: Path) -> None:
    columns = pa.schema({"p": pa.string(), "x": pa.int64()})
    table = made(tmp_path, columns, SMALL, partition_keys=["p"])
    for number in range(3):
        lw.write_table(pa.table({"p": ["a", "b"] * 50, "x": [(7 * n + number) % 101 for n in range(100)]}), table)
    result = table.compact(order_by=["x"], where="p = 'a'")
    assert (result.partitions, result.files_before, result.files_after) == (1, 3, 1)
    xs = lw.read_table(table, filter="p = 'a'")["x"].to_pylist()
    assert xs == sorted(xs)


# What an order can be over: every type, with nulls, not-a-numbers and zeros of both signs.
VALUES: dict[str, list[object]] = {
    "TINYINT": [None, -128, -1, 0, 1, 127],
    "BIGINT": [None, -(2**63), -1, 0, 1, 2**63 - 1],
    "BOOLEAN": [None, False, True],
    "FLOAT": [None, float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan")],
    "DOUBLE": [None, float("-inf"), -1e300, -0.0, 0.0, 1e-300, float("inf"), float("nan")],
    "DECIMAL(10, 2)": [None, Decimal("-5.25"), Decimal("0.00"), Decimal("7.10")],
    "DECIMAL(38, 2)": [None, Decimal("-1e30"), Decimal("0.00"), Decimal("7.10"), Decimal("1e33")],
    "DATE": [None, date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1)],
    "TIMESTAMP(6)": [None, datetime(1900, 1, 1), datetime(1970, 1, 1), datetime(2026, 1, 1)],  # noqa: DTZ001
    "STRING": [None, "", "a", "a\x00", "ab", "b", "é", "日"],
    "BYTES": [None, b"", b"\x00", b"\x01", b"\xff"],
}


@pytest.mark.parametrize("text", VALUES)
def test_values_of_every_type_are_sorted(text: str) -> None:
    field = DataField(0, "v", lw.AtomicType(text))
    values = VALUES[text]
    sample = pa.table({"v": pa.array(values, to_arrow_type(field.type))})
    key = OrderKey.of_sample("order", [field], sample)
    shuffled = np.random.default_rng(3).permutation(len(values))
    rows = sample.take(pa.array(shuffled))
    assert shuffled[key.order(rows)].tolist() == list(range(len(values)))
    words = key.columns[0].words(sample.column("v"))
    assert all(one <= other for one, other in pairwise(words.tolist()))
    if key.columns[0].is_exact:
        assert len(set(words.tolist())) == len(values)
    number = DataField(1, "n", AtomicType("INT"))
    both = sample.append_column("n", pa.array(range(len(values)), pa.int32()))
    for strategy in STRATEGIES:
        ranged = OrderKey.of_sample(strategy, [field, number], both).coarser(4)
        numbers = ranged.range_of(both)
        in_order = numbers[ranged.order(both)].tolist()
        assert in_order == sorted(in_order)


def test_texts_with_a_common_beginning_are_told_apart() -> None:
    field = DataField(0, "v", AtomicType("STRING"))
    texts = [f"https://example.org/customers/{number:06}" for number in range(5000)]
    key = OrderKey.of_sample("order", [field], pa.table({"v": texts})).coarser(8)
    assert key.ranges == 8
    rows = pa.table({"v": ["a", *texts[::100], "z"]})
    assert key.range_of(rows).tolist() == sorted(key.range_of(rows).tolist())
    assert len(set(key.range_of(rows).tolist())) == 8


@pytest.mark.parametrize("columns", [2, 3])
def test_neighbours_on_a_hilbert_curve_touch(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering_key, "RANK_BITS", 4)
    grids = np.meshgrid(*[np.arange(16, dtype=np.uint16)] * columns, indexing="ij")
    ranks = [grid.ravel() for grid in grids]
    for mix in (clustering_key.zorder, clustering_key.hilbert):
        assert sorted(mix(ranks).tolist()) == list(range(16**columns))
    walk = np.stack(ranks, 1)[np.argsort(clustering_key.hilbert(ranks))].astype(int)
    assert set(np.abs(np.diff(walk, axis=0)).sum(1).tolist()) == {1}


@pytest.mark.parametrize("greatest", [1, 5, 300, 10**6, 2**40, 2**63, 2**64 - 2])
def test_ranks_are_those_of_a_binary_search(greatest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering_key, "_TABLE_WORDS_MIN", 0)
    rng = np.random.default_rng(2)
    sample = rng.integers(0, greatest + 1, 5000, np.uint64)
    words = np.concatenate([sample, rng.integers(0, 2**64 - 1, 5000, np.uint64), np.array([0, 2**64 - 1], np.uint64)])
    for part in (sample, sample[:1], sample[:2], np.append(sample, np.uint64(2**64 - 1))):
        quantiles = clustering_key.Quantiles.of(part)
        expected = quantiles.ranks[np.searchsorted(quantiles.cuts, words, side="right")]
        assert (quantiles.rank(words) == expected).all()


def test_cuts_of_a_curve_keep_equal_numbers_together() -> None:
    words = np.sort(np.concatenate([np.full(500, 7), np.arange(1000)]).astype(np.uint64))
    cuts = clustering_key.aligned_cuts(words, 100)
    sizes = np.diff([0, *np.searchsorted(words, cuts), len(words)])
    assert sorted(sizes.tolist())[-2] <= 100
    assert sizes.max() <= 600
    assert (np.diff(cuts.astype(np.int64)) > 0).all()
    assert clustering_key.aligned_cuts(np.arange(3, dtype=np.uint64), 1).tolist() == [1, 2]
    assert clustering_key.aligned_cuts(np.full(500, 7, np.uint64), 100).tolist() == []
    assert clustering_key.aligned_cuts(np.zeros(0, np.uint64), 100).tolist() == []


def test_many_columns_fit_one_number() -> None:
    ranks = [np.array([0, 4095], np.uint16)] * 32
    for mix in (clustering_key.zorder, clustering_key.hilbert):
        assert mix(ranks)[0] == 0
    assert clustering_key.zorder(ranks)[1] == 2**64 - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order_by": ["nope"]}, "'nope', which is no column"),
        ({"strategy": "zorder"}, "name them in order_by"),
        ({"order_by": [], "strategy": "order"}, "name them in order_by"),
        ({"order_by": ["x"], "strategy": "spiral"}, "'order', 'zorder', 'hilbert'"),
        ({"order_by": ["x", "x"]}, "each once"),
        ({"idle": "1 day"}, "no partitions that could be idle"),
        ({"where": "x = 1"}, "no partitions that a condition could choose"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    table = points(tmp_path, {}, commits=1, rows=3)
    with pytest.raises(lw.InvalidInputError, match=message):
        table.compact(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        (["x"], {"bucket": "1"}, "has a primary key"),
        ([], {"bucket": "2", "bucket-key": "x"}, "has bucket=2"),
        ([], {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}, "data-evolution.enabled"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, keys: list[str], options: dict[str, str], message: str) -> None:
    table = made(tmp_path, pa.schema({"x": pa.int64()}), options, primary_keys=keys)
    with pytest.raises(lw.UnsupportedError, match=message):
        table.compact(order_by=["x"])


# ---- which partitions, and what would be done ----------------------------------------------------------------------


def days(root: Path) -> lw.FileStoreTable:
    table = made(root, pa.schema({"dt": pa.string(), "x": pa.int64()}), {}, partition_keys=["dt"])
    for number in range(2):
        lw.write_table(pa.table({"dt": ["2026-01-01", "2026-01-02"], "x": [number, number]}), table)
    return table


@pytest.mark.filterwarnings("ignore:.*clustering:lakewright.LakewrightWarning")
def test_files_that_are_clustered_step_by_step_are_not_merged(tmp_path: Path) -> None:
    options = {"clustering.incremental": "true", "clustering.columns": "x", "bucket": "-1"}
    table = points(tmp_path, options, commits=2, rows=10)
    for full in (False, True):
        with pytest.raises(
            lw.UnsupportedError, match=r"d\.t has 'clustering.incremental'.*compact\(order_by=\['x'\]\)"
        ):
            table.compact(full=full)
    assert table.compact(order_by="x").files_before == 2
    assert lw.read_table(table)["x"].to_pylist() == sorted(lw.read_table(table)["x"].to_pylist())


def test_a_condition_chooses_partitions(tmp_path: Path) -> None:
    table = days(tmp_path)
    with pytest.raises(lw.InvalidInputError, match=r"only use the partition columns dt.*it uses x"):
        table.compact(full=True, where="dt = '2026-01-01' AND x = 1")
    result = table.compact(full=True, where="dt > '2026-01-01'")
    assert (result.partitions, result.files_before, result.files_after, result.rows) == (1, 2, 1, 2)
    assert table.compact(full=True, where="dt > '2026-01-01'").is_empty
    assert table.compact(full=True, partitions={"dt": "2026-01-02"}, where="dt < '2026-01-02'").is_empty


def test_only_idle_partitions_are_compacted(tmp_path: Path) -> None:
    table = days(tmp_path)
    assert table.compact(full=True, idle=timedelta(hours=1)).is_empty
    assert table.compact(full=True, idle="1 ms").partitions == 2


def test_a_dry_run_returns_the_plan_and_changes_nothing(tmp_path: Path) -> None:
    table = days(tmp_path)
    before = table.snapshot()
    plan = table.compact(full=True, dry_run=True)
    assert (plan.dry_run, plan.is_empty, plan.snapshot_id) == (True, False, None)
    assert (plan.partitions, plan.buckets, plan.files_before, plan.files_after, plan.rows) == (2, 2, 4, 2, 4)
    assert plan.bytes > 0
    days_of_plan = [(one.partition, one.buckets, one.files_before, one.files_after, one.rows) for one in plan.details]
    assert days_of_plan == [("dt=2026-01-01", 1, 2, 1, 2), ("dt=2026-01-02", 1, 2, 1, 2)]
    assert table.compact(order_by=["x"], dry_run=True).files_before == 4
    assert table.snapshot() == before
    table.compact(full=True)
    assert table.compact(full=True, dry_run=True).is_empty
