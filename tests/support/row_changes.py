"""Tables of every kind whose rows can be changed, and what each change makes of the rows, computed with polars."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import MemoryStorage
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.spec.argument_checks import WriteMode
from lakewright.spec.snapshot import CommitKind

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = TRACKED | {"data-evolution.enabled": "true"}
BUCKETS = {"bucket": "2", "bucket-key": "id"}
# Of each kind: partition columns, primary key, options.
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "plain": ([], [], {}),
    "plain, partitions, orc": (["p"], [], {"file.format": "orc"}),
    "plain, buckets": ([], [], BUCKETS),
    "vectors": ([], [], VECTORS),
    "vectors of 64 bits, partitions": (["p"], [], VECTORS | {"deletion-vectors.bitmap64": "true"}),
    "vectors, buckets, avro": ([], [], BUCKETS | VECTORS | {"file.format": "avro"}),
    "tracked": ([], [], TRACKED),
    "tracked, vectors, partitions": (["p"], [], TRACKED | VECTORS),
    "evolution": ([], [], EVOLUTION),
    "evolution, vectors": ([], [], EVOLUTION | VECTORS),
    "evolution, partitions": (["p"], [], EVOLUTION),
    "keyed": ([], ["id"], {"bucket": "2"}),
    "keyed, partitions, vectors": (["p"], ["p", "id"], {"bucket": "1"} | VECTORS),
    "keyed, dynamic": ([], ["id"], {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "keyed, changelog": ([], ["id"], {"bucket": "1", "changelog-producer": "input"}),
}
SCHEMA = pa.schema({"id": pa.int32(), "p": pa.int32(), "n": pa.int64(), "name": pa.string(), "tag": pa.int64()})
CONDITIONS: list[tuple[str, pl.Expr]] = [
    ("n > 0", pl.col("n") > 0),
    ("id IN (1, 2, 3) OR name = 'a'", pl.col("id").is_in([1, 2, 3]) | (pl.col("name") == "a")),
    ("NOT (id < 9)", ~(pl.col("id") < 9)),
    ("n IS NULL AND p = 1", pl.col("n").is_null() & (pl.col("p") == 1)),
    ("p = 2", pl.col("p") == 2),
    ("id = 77", pl.col("id") == 77),
]
YES, NO = pl.lit(value=True), pl.lit(value=False)
_names = itertools.count()


def new_table(kind: str, root: Path | None = None, /, **options: str) -> lw.FileStoreTable:
    """Make an empty table of a kind, in memory or below a directory."""
    storage = MemoryStorage(f"changes-{next(_names)}")
    catalog: lw.Catalog = lw.FileSystemCatalog(storage, f"{storage.root}/warehouse", OPTIONS)
    if root is not None:
        catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    return create_table(catalog, *KINDS[kind], options)


def create_table(
    catalog: lw.Catalog,
    partition_keys: Sequence[str],
    primary_keys: Sequence[str],
    own: Mapping[str, str],
    options: Mapping[str, str],
) -> lw.FileStoreTable:
    """Make the empty table `d.t`."""
    catalog.create_database("d")
    keys = {*primary_keys, *partition_keys}
    fields = [
        lw.DataField(number, name, lw.AtomicType(dtype, nullable=name not in keys))
        for number, (name, dtype) in enumerate(
            [("id", "INT"), ("p", "INT"), ("n", "BIGINT"), ("name", "STRING"), ("tag", "BIGINT")]
        )
    ]
    catalog.create_table("d.t", lw.Schema(fields, list(partition_keys), list(primary_keys), {**own, **options}))
    return catalog.get_table("d.t")


def random_rows(random: Random, count: int, tags: itertools.count[int] | None, *, nulls: bool) -> pl.DataFrame:
    """Make rows; `tags` number them, and `nulls` allows ids to be null."""
    rows = [
        {
            "id": None if nulls and random.random() < 0.1 else random.randint(0, 12),
            "p": random.randint(0, 2),
            "n": random.choice([None, 0, 1, 5, -3]),
            "name": random.choice([None, "", "a", "b", "é"]),
            "tag": None if tags is None else next(tags),
        }
        for _ in range(count)
    ]
    return frame(pa.Table.from_pylist(rows, SCHEMA))


def frame(rows: pa.Table) -> pl.DataFrame:
    """Return rows as a frame of polars."""
    made = pl.from_arrow(rows)
    assert isinstance(made, pl.DataFrame)
    return made


def bag(rows: pl.DataFrame) -> list[tuple[object, ...]]:
    """Return rows in an order that does not depend on how they were stored."""
    return sorted(rows.select(SCHEMA.names).rows(), key=repr)


def last_of_each(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Keep the last row of each key; rows without one stay."""
    known = rows.drop_nulls(keys).unique(keys, keep="last", maintain_order=True)
    return pl.concat([known, rows.filter(pl.any_horizontal(pl.col(key).is_null() for key in keys))])


def upserted(rows: pl.DataFrame, new: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Update the columns that the new rows have and insert those whose key is not there."""
    new = last_of_each(new, keys)
    given = [name for name in new.columns if name not in keys]
    joined = rows.join(new.with_columns(hit=pl.lit(value=True)), on=list(keys), how="left", suffix="_new")
    taken = [pl.when("hit").then(f"{name}_new").otherwise(name).alias(name) for name in given]
    absent = new.join(rows, on=list(keys), how="anti")
    return pl.concat([joined.with_columns(taken).select(rows.columns), absent], how="diagonal").select(rows.columns)


class Verbs:
    """The verbs of the embedded engine, on one table; other engines override them."""

    def __init__(self, table: lw.FileStoreTable) -> None:
        self.table = table

    def write(self, rows: pl.DataFrame, mode: WriteMode) -> None:
        """Write rows."""
        lw.write_table(rows, self.table, mode=mode)

    def compact(self, *, full: bool) -> None:
        """Compact the table."""
        self.table.compact(full=full)

    def delete(self, where: str) -> UpdateResult:
        """Delete rows."""
        return self.table.delete(where)

    def update(self, assignments: Mapping[str, object], where: str) -> UpdateResult:
        """Update rows."""
        return self.table.update(assignments, where)

    def upsert(self, rows: pl.DataFrame, keys: Sequence[str] | None = None) -> UpdateResult:
        """Upsert rows."""
        return self.table.upsert(rows, keys)

    def merge(self, source: pl.DataFrame, on: Sequence[str]) -> MergeBuilder:
        """Begin a merge."""
        return self.table.merge(source, on)


class Model:
    """One table, the rows that it must have, and random changes of both, by the verbs of an engine."""

    def __init__(self, kind: str, seed: int, verbs: Verbs | None = None) -> None:
        self.random = Random(f"{kind} {seed}")
        self.kind = kind
        self.partition_keys, self.keys, _ = KINDS[kind]
        self.verbs = Verbs(new_table(kind)) if verbs is None else verbs
        self.table = self.verbs.table
        self.tags = itertools.count()
        self.rows = random_rows(self.random, 0, None, nulls=False)
        self.ids: dict[int, int] = {}  # of rows with tags, which no change but a merge or an append sets

    def run(self, steps: int) -> None:
        """Do so many random things to the table, and look at it after each of them."""
        self.append()
        verbs: list[Callable[[], None]] = [self.append, self.delete, self.update, self.upsert, self.merge, self.compact]
        for _ in range(steps):
            before = self.table.store.snapshots.latest_id() or 0
            self.random.choice([*verbs, self.merge])()
            self.check()
            ids = [number for number in self.table.store.snapshots.ids() if number > before]
            kinds = [self.table.store.snapshots.get(number).commit_kind for number in ids]
            assert kinds.count(CommitKind.COMPACT) <= 1
            assert len(kinds) - kinds.count(CommitKind.COMPACT) <= 1

    def check(self) -> None:
        """Compare every row, and that rows that were there before are still known by the same ids."""
        assert bag(frame(lw.read_table(self.table))) == bag(self.rows)
        if not self.table.options.row_tracking_enabled():
            return
        found = lw.read_table(self.table, columns=["tag", "_ROW_ID"])
        ids = found["_ROW_ID"].to_pylist()
        assert len(set(ids)) == len(ids)
        now = {tag: row_id for tag, row_id in zip(found["tag"].to_pylist(), ids, strict=True) if tag is not None}
        assert {tag: now[tag] for tag in self.ids if tag in now} == {t: i for t, i in self.ids.items() if t in now}
        self.ids = now

    def new_rows(self, count: int, *, tagged: bool = True) -> pl.DataFrame:
        """Make rows for the table."""
        return random_rows(self.random, count, self.tags if tagged else None, nulls=not self.keys)

    def put(self, new: pl.DataFrame) -> None:
        """Add rows, which replace those with their keys where the table has keys."""
        if self.keys:
            new = last_of_each(new, self.keys)
            self.rows = self.rows.join(new, on=self.keys, how="anti")
        self.rows = pl.concat([self.rows, new])

    def append(self) -> None:
        """Append rows."""
        new = self.new_rows(self.random.randint(1, 25))
        self.verbs.write(new, "append")
        self.put(new)

    def compact(self) -> None:
        """Compact the table: nothing changes."""
        self.verbs.compact(full=self.random.random() < 0.5)

    def delete(self) -> None:
        """Delete by a condition."""
        text, condition = self.random.choice(CONDITIONS)
        left = self.rows.filter(~condition.fill_null(value=False))
        result = self.verbs.delete(text)
        assert (result.deleted, result.updated, result.inserted) == (self.rows.height - left.height, 0, 0)
        self.rows = left

    def update(self) -> None:
        """Update by a condition."""
        text, condition = self.random.choice(CONDITIONS)
        choices: list[tuple[dict[str, object], list[pl.Expr]]] = [
            ({"n": pc.field("n") + 1}, [pl.col("n") + 1]),
            ({"n": None, "name": "z"}, [pl.lit(None, pl.Int64).alias("n"), pl.lit("z").alias("name")]),
            ({"name": lambda rows: pc.binary_join_element_wise(rows["name"], "!", "")}, [pl.col("name") + "!"]),
        ]
        given, values = self.random.choice(choices)
        hit = condition.fill_null(value=False)
        result = self.verbs.update(given, text)
        assert (result.deleted, result.updated, result.inserted) == (0, self.rows.filter(hit).height, 0)
        names = [value.meta.output_name() for value in values]
        self.rows = self.rows.with_columns(
            pl.when(hit).then(value).otherwise(name).alias(name) for value, name in zip(values, names, strict=True)
        )

    def upsert(self) -> None:
        """Upsert by the primary key, or by some columns; the data may lack columns."""
        new = self.new_rows(self.random.randint(1, 10), tagged=False)
        if self.keys:
            self.upsert_by_key(new)
            return
        keys = self.random.choice([["id"], ["id", "p"], ["name", "id"]])
        if self.partition_keys and "evolution" in self.kind:
            keys = ["id", "p"]  # such rows cannot move to another partition
        if self.random.random() < 0.5 or self.table.options.row_tracking_enabled():
            new = new.drop("tag")
        wanted = upserted(self.rows, new, keys)
        result = self.verbs.upsert(new, keys)
        assert result.inserted == wanted.height - self.rows.height
        self.rows = wanted

    def upsert_by_key(self, new: pl.DataFrame) -> None:
        """Upsert by the primary key rows with any of the other columns; with all of them nobody looks what is there."""
        others = [name for name in self.rows.columns if name not in self.keys]
        given = self.random.sample(others, self.random.randint(0, len(others)))
        new = new.select([*self.keys, *given])
        wanted = upserted(self.rows, new, self.keys)
        if self.random.random() < 0.5:
            result = self.verbs.upsert(new)
            inserted = wanted.height - self.rows.height
            hit = last_of_each(new, self.keys).height - inserted
            exact = (0, hit if given else 0, inserted)
            known = len(given) < len(others)
            assert (result.deleted, result.updated, result.inserted) == (exact if known else (None, None, None))
        else:
            self.verbs.write(new, "upsert")
        self.rows = wanted

    def merge(self) -> None:
        """Merge with random clauses, of which the first that applies must win."""
        on = self.keys or (["id", "p"] if self.partition_keys else ["id"])
        source = self.new_rows(self.random.randint(1, 12)).unique(on, keep="first", maintain_order=True)
        pairs = self.rows.join(source.with_columns(met=YES), on=on, how="left", suffix="_s")
        fate = Fate(self.verbs.merge(source, on))
        clauses = [fate.delete, fate.update, fate.insert, fate.delete_alone, fate.update_alone]
        for clause in self.random.sample(clauses, self.random.randint(1, len(clauses))):
            clause()
        after = pairs.with_columns(gone=fate.gone, n=fate.n, name=fate.name)
        absent = source.join(self.rows, on=on, how="anti") if fate.inserts else source.clear()
        result = fate.builder.execute()
        assert (result.deleted, result.inserted) == (after["gone"].sum(), absent.height)
        assert result.updated == pairs.select(fate.updated.sum()).item()
        self.rows = pl.concat([after.filter(~pl.col("gone")).select(self.rows.columns), absent])


class Fate:
    """Clauses of a merge, said to the library and to polars."""

    def __init__(self, builder: MergeBuilder) -> None:
        self.builder = builder
        self.met = pl.col("met").is_not_null()
        self.left = YES  # rows that no clause has applied to yet
        self.gone, self.updated = NO, NO
        self.n, self.name = pl.col("n"), pl.col("name")
        self.inserts = False

    def _taken(self, rows: pl.Expr, condition: pl.Expr) -> pl.Expr:
        mine = self.left & rows & condition.fill_null(value=False)
        self.left = self.left & ~mine
        return mine

    def delete(self) -> None:
        """Delete pairs."""
        self.builder = self.builder.when_matched_delete("s.n > 0")
        self.gone = self.gone | self._taken(self.met, pl.col("n_s") > 0)

    def update(self) -> None:
        """Update pairs."""
        values: dict[str, object] = {"name": lw.source_col("name"), "n": pc.field("t.n") + pc.field("s.n")}
        self.builder = self.builder.when_matched_update(values, "t.n = s.n OR t.n > 0")
        mine = self._taken(self.met, (pl.col("n") == pl.col("n_s")) | (pl.col("n") > 0))
        self.name = pl.when(mine).then("name_s").otherwise(self.name)
        self.n = pl.when(mine).then(pl.col("n") + pl.col("n_s")).otherwise(self.n)
        self.updated = self.updated | mine

    def insert(self) -> None:
        """Insert what has no pair."""
        self.builder = self.builder.when_not_matched_insert()
        self.inserts = True

    def delete_alone(self) -> None:
        """Delete rows without a pair."""
        self.builder = self.builder.when_not_matched_by_source_delete("n > 0")
        self.gone = self.gone | self._taken(~self.met, pl.col("n") > 0)

    def update_alone(self) -> None:
        """Update rows without a pair."""
        self.builder = self.builder.when_not_matched_by_source_update({"n": 100}, "name = 'a' AND t.n <> 0")
        mine = self._taken(~self.met, (pl.col("name") == "a") & (pl.col("n") != 0))
        self.n = pl.when(mine).then(100).otherwise(self.n)
        self.updated = self.updated | mine
