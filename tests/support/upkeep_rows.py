"""Operations of a mix on rows, columns and files: the table as the model knows it in, one random attempt out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import cast
from unittest.mock import ANY

import polars as pl
import pyarrow as pa

import lakewright as lw
from lakewright.compact.compaction_job import Strategy
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from support.row_changes import CONDITIONS, Model, Verbs, random_rows
from support.upkeep_book import MAIN, Columns, Line, stored
from support.upkeep_mix import Attempt, Lines, Mix


class _Rows(Model):
    """Random changes of rows that are known, some of which have columns that were added."""

    def __init__(self, mix: Mix, seed: int, verbs: Verbs, rows: pl.DataFrame) -> None:
        # The table exists already, so that of a new model is not made.
        self.random, self.kind = Random(seed), mix.kind
        self.partition_keys, self.keys = mix.partition_keys, mix.keys
        self.verbs, self.table, self.rows = verbs, verbs.table, rows
        self.tags = itertools.count(mix.tags)
        self.ids = {}

    def new_rows(self, count: int, *, tagged: bool = True) -> pl.DataFrame:
        """Make rows with all columns of the table."""
        rows = super().new_rows(count, tagged=tagged)
        extras = [name for name in self.rows.columns if name not in rows.columns]
        values = {name: [self.random.choice([None, 7, 8]) for _ in range(rows.height)] for name in extras}
        return rows.with_columns(pl.Series(name, value, pl.Int64) for name, value in values.items())


class _NoVerbs(Verbs):
    """Verbs that do nothing, to learn what the rows would be; their results equal any result."""

    def write(self, *_: object) -> None:
        """Write nothing."""

    def delete(self, *_: object) -> UpdateResult:
        """Delete nothing."""
        return _any()

    def update(self, *_: object) -> UpdateResult:
        """Update nothing."""
        return _any()

    def upsert(self, *_: object) -> UpdateResult:
        """Upsert nothing."""
        return _any()

    def merge(self, *_: object) -> MergeBuilder:
        """Begin a merge that does nothing."""
        return cast("MergeBuilder", _NoMerge())


class _NoMerge:
    """A merge with any clauses that does nothing."""

    def __getattr__(self, name: str) -> Callable[..., object]:
        return (lambda *_: _any()) if name == "execute" else (lambda *_: self)


def _any() -> UpdateResult:
    return cast("UpdateResult", SimpleNamespace(deleted=ANY, updated=ANY, inserted=ANY))


class RowVerbs:
    """Plans operations on the table of a mix. Each method returns None where there is nothing to do it to."""

    def __init__(self, mix: Mix) -> None:
        self.mix, self.random = mix, mix.random
        self.names = itertools.count(1)

    # What the table has.

    def _branch(self) -> str:
        others = [name for name in self.mix.lines if name != MAIN]
        return self.random.choice(others) if others and self.random.random() < 0.35 else MAIN

    def _line(self, branch: str) -> Line:
        return self.mix.lines[branch]

    def _rows(self, branch: str) -> pl.DataFrame:
        """Return the newest rows of a branch with the columns of its schema."""
        return self.mix.state(branch).seen_with(self._line(branch).columns)

    def _whole_ids(self, branch: str) -> list[int]:
        """Return the snapshots of a branch without rows that wait for a compaction."""
        found = self._line(branch).snapshots.items()
        return [number for number, key in found if self.mix.states[key].waiting is None]

    def _commit(
        self,
        what: str,
        branch: str,
        act: Callable[[lw.FileStoreTable], object],
        *rows: pl.DataFrame,
        kept: bool = False,
    ) -> Attempt:
        """Return an attempt that commits to a branch: without rows a compaction; `kept`: they are rows of a state."""
        mix, columns = self.mix, self._line(branch).columns
        wanted = [one if kept else stored(one, columns) for one in rows] or [mix.state(branch).rows]
        return Attempt(
            f"{what} on {branch}",
            lambda catalog: act(mix.table(branch, catalog)),
            lambda after, done: mix.judge_commit(branch, wanted, after, done=done),
        )

    # Rows.

    def change_rows(self, verb: str) -> Attempt:
        branch, seed = self._branch(), self.random.getrandbits(32)
        rows, mix = self._rows(branch), self.mix

        def changed(verbs: Verbs) -> pl.DataFrame:
            changes = _Rows(mix, seed, verbs, rows)
            getattr(changes, verb)()
            return changes.rows

        wanted = changed(_NoVerbs(mix.table(branch)))
        attempt = self._commit(verb, branch, lambda table: changed(Verbs(table)), wanted)
        mix.tags += 100
        changed_tags = mix.tags - 100

        def act(catalog: lw.Catalog) -> None:
            mix.tags, now = changed_tags, mix.tags
            try:
                changed(Verbs(mix.table(branch, catalog)))
            finally:
                mix.tags = now

        return Attempt(attempt.what, act, attempt.judge)

    def _new_rows(self, branch: str, count: int) -> pl.DataFrame:
        rows = _Rows(self.mix, self.random.getrandbits(32), _NoVerbs(self.mix.table(branch)), self._rows(branch))
        made = rows.new_rows(count)
        self.mix.tags += 100
        return made.unique(self.mix.keys, keep="last", maintain_order=True) if self.mix.keys else made

    def delete_keys(self) -> Attempt | None:
        if not self.mix.keys:
            return None
        branch = self._branch()
        rows, keys = self._rows(branch), self.mix.keys
        gone = random_rows(self.random, 4, None, nulls=False).select(keys).unique(keys, maintain_order=True)
        left = rows.join(gone, on=keys, how="anti")
        return self._commit("delete keys", branch, lambda table: lw.write_table(gone, table, mode="delete"), left)

    def by_row_id(self) -> Attempt | None:
        if "row-tracking.enabled" not in self.mix.table(MAIN).schema.options:
            return None
        branch = self._branch()
        if not self._line(branch).snapshots:
            return None
        names = [name for name, _ in self._line(branch).columns]
        found = lw.read_table(self.mix.table(branch), columns=[*names, "_ROW_ID"])
        rows = pl.from_arrow(found)
        assert isinstance(rows, pl.DataFrame)
        ids = self.random.sample(found["_ROW_ID"].to_pylist(), min(3, found.num_rows))
        if not ids:
            return None
        hit = pl.col("_ROW_ID").is_in(ids)
        if self.random.random() < 0.5:
            left = rows.filter(~hit).select(names)
            return self._commit(f"delete row ids {ids}", branch, lambda table: table.delete_by_row_id(ids), left)
        changed = rows.with_columns(n=pl.when(hit).then(77).otherwise("n")).select(names)
        values = pa.table({"_ROW_ID": pa.array(ids, pa.int64()), "n": pa.array([77] * len(ids), pa.int64())})
        return self._commit(f"update row ids {ids}", branch, lambda table: table.update_by_row_id(values), changed)

    def overwrite(self) -> Attempt:
        branch = self._branch()
        rows, new = self._rows(branch), self._new_rows(branch, self.random.randint(1, 8))
        kept = rows.join(new, on="p", how="anti") if self.mix.partition_keys else rows.clear()
        wanted = pl.concat([kept, new])
        return self._commit("overwrite", branch, lambda table: lw.write_table(new, table, mode="overwrite"), wanted)

    def overwrite_partition(self) -> Attempt | None:
        if not self.mix.partition_keys:
            return None
        branch, place = self._branch(), self.random.randint(0, 2)
        new = self._new_rows(branch, self.random.randint(0, 8)).with_columns(p=pl.lit(place, pl.Int32))
        new = new.unique(self.mix.keys, keep="last", maintain_order=True) if self.mix.keys else new
        wanted = pl.concat([self._rows(branch).filter(pl.col("p") != place), new])
        spec = {"p": place}
        return self._commit(
            f"overwrite p={place}",
            branch,
            lambda table: lw.write_table(new, table, mode="overwrite", partitions=spec),
            wanted,
        )

    def truncate(self) -> Attempt:
        branch = self._branch()
        none = self._rows(branch).clear()
        return self._commit(
            "truncate", branch, lambda table: table.new_batch_write_builder().new_commit().truncate_table(), none
        )

    def update_added(self) -> Attempt | None:
        branch = self._branch()
        if not (extras := self._line(branch).extras):
            return None
        name, value = self.random.choice(extras), self.random.randint(1, 9)
        text, condition = self.random.choice(CONDITIONS)
        hit = condition.fill_null(value=False)
        wanted = self._rows(branch).with_columns(pl.when(hit).then(value).otherwise(name).alias(name))
        return self._commit(f"update {name}", branch, lambda table: table.update({name: value}, text), wanted)

    # Columns.

    def alter(self) -> Attempt:
        branch, mix = self._branch(), self.mix
        before = self._line(branch)
        extras = before.extras
        fresh = f"x{next(self.names)}"
        old = self.random.choice(extras) if extras else ""
        choices = [("add", lw.SchemaChange.add_column(fresh, lw.AtomicType("BIGINT")))]
        if extras:
            choices += [
                ("rename", lw.SchemaChange.rename_column(old, fresh)),
                ("drop", lw.SchemaChange.drop_column(old)),
            ]
        verb, change = self.random.choice(choices)
        place = "d.t" if branch == MAIN else f"d.t$branch_{branch}"

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, branch)
            now = after[branch]
            assert (now.snapshots, now.tags) == (before.snapshots, before.tags)
            if now.schemas == before.schemas:
                assert not done
                return
            new = max(before.schemas) + 1
            assert now.schemas == {**before.schemas, new: now.columns}
            assert _is_altered(before.columns, now.columns, verb, old, fresh)

        return Attempt(f"{verb} column {old}>{fresh} on {branch}", lambda c: c.alter_table(place, [change]), judge)

    # Compaction.

    def compact(self) -> Attempt:
        full, branch = self.random.random() < 0.5, self._branch()
        return self._commit(f"compact full={full}", branch, lambda table: table.compact(full=full))

    def compact_in_order(self) -> Attempt | None:
        options = self.mix.table(MAIN).schema.options
        if self.mix.keys or "bucket" in options or "data-evolution.enabled" in options:
            return None
        strategies: list[Strategy] = ["order", "zorder", "hilbert"]
        strategy = self.random.choice(strategies)
        return self._commit(
            f"compact by {strategy}",
            self._branch(),
            lambda table: table.compact(order_by=["n", "id"], strategy=strategy),
        )

    def compact_partition(self) -> Attempt | None:
        if not self.mix.partition_keys:
            return None
        branch, place = self._branch(), self.random.randint(0, 2)
        if self.random.random() < 0.5:
            return self._commit(f"compact p={place}", branch, lambda table: table.compact(where=f"p = {place}"))
        return self._commit(
            f"compact p={place} fully", branch, lambda table: table.compact(partitions=[{"p": place}], full=True)
        )

    def compact_metadata(self) -> Attempt:
        """Merge manifests, or rewrite files with deleted rows."""
        branch = self._branch()
        if "deletion-vectors.enabled" in self.mix.table(MAIN).schema.options and self.random.random() < 0.5:
            return self._commit("deletion vectors", branch, lambda table: table.materialize_deletion_vectors())
        return self._commit("manifests", branch, lambda table: table.compact_manifests())

    def rescale(self) -> Attempt | None:
        if self.mix.kind != "keyed":
            return None
        buckets = self.random.randint(1, 3)
        return self._commit(f"rescale to {buckets}", self._branch(), lambda table: table.rescale(buckets))


def _is_altered(before: Columns, now: Columns, verb: str, old: str, fresh: str) -> bool:
    """Say whether columns are those before with one added, renamed or dropped."""
    if verb == "add":
        (name, inner) = now[-1]
        return now[:-1] == before and name == fresh and inner not in dict(before).values()
    if verb == "rename":
        return now == tuple((fresh if name == old else name, inner) for name, inner in before)
    return now == tuple(one for one in before if one[0] != old)
