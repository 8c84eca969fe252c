"""What processes do to the tables: each role is one process that chooses its next operation at random."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakewright as lw
from lakewright.spec.schema import SchemaChange
from support.chaos.journal import Journal
from support.chaos.model import SLOT_KEYS, Rows

HOT = 12  # keys of slot 0 that all writers of a table with a primary key share
LIFE_KEYS = 10**4
DATABASE = "d"
SPARK = "spark"  # a role of its own: its module needs Spark
COLUMNS = [
    lw.DataField(0, "p", lw.AtomicType("INT", nullable=False)),
    lw.DataField(1, "k", lw.AtomicType("BIGINT", nullable=False)),
    lw.DataField(2, "v", lw.AtomicType("STRING")),
]
ROWS = pa.schema({"p": pa.int32(), "k": pa.int64(), "v": pa.string()})
_now = time.monotonic


@dataclass(frozen=True)
class TableKind:
    """A table: its name, whether it has a primary key and partitions, and whether its history is rewound."""

    name: str
    keyed: bool
    partitioned: bool
    rewound: bool
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The name with that of the database."""
        return f"{DATABASE}.{self.name}"

    def schema(self) -> lw.Schema:
        """Return what creates the table."""
        partitions = ["p"] if self.partitioned else []
        keys = [*partitions, "k"] if self.keyed else []
        return lw.Schema(COLUMNS, partitions, keys, dict(self.options))


@dataclass(frozen=True)
class Plan:
    """What one process needs to know."""

    role: str
    life: int  # no two processes have the same
    slot: int  # of its role: the process that follows a killed one has it too
    seed: str
    catalog: Mapping[str, str]
    tables: Sequence[TableKind]
    directory: str  # of journals and messages
    until: float
    clock: float  # seconds by which its wall clock is wrong
    pause: float  # mean seconds between two operations


def rows_of(keys: Sequence[int], value: str) -> pa.Table:
    """Return rows with the keys."""
    return pa.table({"p": [key // SLOT_KEYS for key in keys], "k": list(keys), "v": [value] * len(keys)}, ROWS)


def read_rows(table: lw.FileStoreTable, **at: Any) -> Rows:  # noqa: ANN401 - the arguments of `read_table`
    """Return what a table holds; a key that is there twice is an error."""
    # Rows of a primary-key table with deletion vectors are seen by others once they are compacted.
    found = lw.read_table(table.copy({"deletion-vectors.merge-on-read": "true"}), columns=["k", "v"], **at)
    rows = dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows, f"{table.name}: {found.num_rows - len(rows)} rows are there twice"
    return rows


def shift_clock(seconds: float) -> None:
    """Make the wall clock of this process wrong; the monotonic clock stays right."""
    time_of, nanoseconds_of = time.time, time.time_ns

    def shifted() -> float:
        return time_of() + seconds

    def shifted_ns() -> int:
        return nanoseconds_of() + int(seconds * 1e9)

    for module in [module for name, module in sys.modules.items() if name.startswith("lakewright")]:
        for name, new in (("time", shifted), ("time_ns", shifted_ns)):
            if getattr(module, name, None) in (time_of, nanoseconds_of):
                setattr(module, name, new)
    time.time, time.time_ns = shifted, shifted_ns


def play(plan: Plan) -> None:
    """Be the process of a role until its time is over."""
    parent = os.getppid()
    warnings.simplefilter("ignore")
    if plan.clock:
        shift_clock(plan.clock)
    role = _begin(plan)
    while role is not None and _now() < plan.until and os.getppid() == parent:
        role.step()
        time.sleep(min(role.dice.expovariate(1 / plan.pause), max(plan.until - _now(), 0)))
    if role is not None:
        role.close()


def _begin(plan: Plan) -> Role | None:
    """Return a role once the catalog can be reached; None if it cannot until the time is over."""
    while _now() < plan.until:
        with suppress(lw.LakewrightError):
            return _class_of(plan.role)(plan)
        time.sleep(plan.pause)
    return None


def _class_of(role: str) -> type[Role]:
    if role != SPARK:
        return ROLES[role]
    from support.chaos.spark_role import SparkWriter  # noqa: PLC0415 - only this role needs Spark

    return SparkWriter


class Role:
    """One process: its dice, its journal, its tables and the keys that it knows of."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.dice = random.Random(f"{plan.seed} {plan.life}")
        self.journal = Journal(f"{plan.directory}/journals/{plan.life}.jsonl", plan.life)
        self.catalog = lw.CatalogFactory.create(dict(plan.catalog))
        self._handles: dict[str, lw.FileStoreTable] = {}
        settled = json.loads(Path(plan.directory, "settled.json").read_text())
        self.mine: dict[str, list[int]] = {}
        self.base_ids: dict[str, int] = {}
        for name, known in settled.items():
            self.mine[name] = [key for key in known["keys"] if key // SLOT_KEYS == plan.slot]
            self.base_ids[name] = known["latest"]
        self._fresh = 0

    def step(self) -> None:
        """Do one operation."""
        raise NotImplementedError

    def close(self) -> None:
        """End what the role has started."""

    def table(self, kind: TableKind) -> lw.FileStoreTable:
        """Return a handle, mostly an old one."""
        if kind.name not in self._handles or self.dice.random() < 0.2:
            self._handles[kind.name] = self.catalog.get_table(kind.path)
        return self._handles[kind.name]

    def any_table(self, fits: Callable[[TableKind], bool] = lambda _: True) -> TableKind:
        """Return a random table."""
        return self.dice.choice([kind for kind in self.plan.tables if fits(kind)])

    def fresh_keys(self) -> list[int]:
        """Return keys that nobody has used."""
        count = self.dice.randint(1, 6)
        first = self.plan.slot * SLOT_KEYS + self.plan.life * LIFE_KEYS + self._fresh
        self._fresh += count
        return list(range(first, first + count))

    def known_keys(self, kind: TableKind) -> list[int]:
        """Return some keys that this process may change: its own, and shared ones where the last commit wins."""
        own = self.mine.get(kind.name, [])
        keys = self.dice.sample(own, min(len(own), self.dice.randint(1, 6)))
        if kind.keyed:
            keys += self.dice.sample(range(HOT), self.dice.randint(0, 3))
        return keys

    def change(
        self, verb: str, kind: TableKind, act: Callable[[str], Any], *, puts: Sequence[int] = (), **facts: object
    ) -> object:
        """Run an operation that changes rows."""
        result = self.journal.attempt(
            verb, kind.name, act, lambda done: {"id": done.snapshot_id}, puts=list(puts), **facts
        )
        if result is not None:
            known = self.mine.setdefault(kind.name, [])
            known += [key for key in puts if key // SLOT_KEYS == self.plan.slot and key not in known]
        return result

    def message_file(self, uid: str) -> Path:
        """Return where serialized messages, or the rows of a job, are kept for replays."""
        return Path(self.plan.directory, "messages", uid)


class Appender(Role):
    """Appends new rows: plainly, by messages that are kept, and as jobs that are run again."""

    def step(self) -> None:
        kind = self.any_table()
        keys = self.fresh_keys()
        match self.dice.choice(["append", "append", "messages", "job"]):
            case "append":
                self.change("append", kind, lambda uid: lw.write_table(rows_of(keys, uid), self.table(kind)), puts=keys)
            case "messages":
                self.change("messages", kind, lambda uid: self._commit_kept(kind, keys, uid), puts=keys)
            case "job":
                self.change("job", kind, lambda uid: self._run_job(kind, keys, uid), puts=keys)

    def _commit_kept(self, kind: TableKind, keys: list[int], uid: str) -> object:
        builder = self.table(kind).new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(rows_of(keys, uid))
            messages = write.prepare_commit()
            kept = {"table": kind.name, "keys": keys, "messages": [each.serialize().hex() for each in messages]}
            self.message_file(uid).write_text(json.dumps(kept))
            return commit.commit(messages)

    def _run_job(self, kind: TableKind, keys: list[int], uid: str) -> object:
        self.message_file(uid).write_text(json.dumps({"table": kind.name, "keys": keys, "job": uid}))
        return lw.write_table(rows_of(keys, uid), self.table(kind), job_id=uid)


class Replayer(Role):
    """Commits the messages of others again, and runs their jobs again, whatever became of the first run."""

    def step(self) -> None:
        files = sorted(Path(self.plan.directory, "messages").iterdir(), key=lambda path: path.stat().st_mtime)
        if not files:
            return
        file = self.dice.choice(files[-20:] if self.dice.random() < 0.7 else files)
        with suppress(json.JSONDecodeError):  # it is being written
            kept = json.loads(file.read_text())
            kind = next(kind for kind in self.plan.tables if kind.name == kept["table"])
            facts = {"of": file.name, "puts": kept["keys"]}
            self.journal.attempt(
                "replay", kind.name, lambda _: self._run(kind, kept), lambda done: {"id": done.snapshot_id}, **facts
            )

    def _run(self, kind: TableKind, kept: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of several results
        if "job" in kept:
            return lw.write_table(rows_of(kept["keys"], kept["job"]), self.table(kind), job_id=kept["job"])
        with self.table(kind).new_batch_write_builder().new_commit() as commit:
            return commit.commit([lw.CommitMessage.deserialize(bytes.fromhex(text)) for text in kept["messages"]])


class Upserter(Role):
    """Upserts new and known rows of tables with a primary key."""

    def step(self) -> None:
        kind = self.any_table(lambda kind: kind.keyed)
        keys = sorted({*self.fresh_keys()[:3], *self.known_keys(kind)})
        by_write = self.dice.random() < 0.5

        def act(uid: str) -> object:
            if by_write:
                return lw.write_table(rows_of(keys, uid), self.table(kind), mode="upsert")
            return self.table(kind).upsert(rows_of(keys, uid))

        self.change("upsert", kind, act, puts=keys)


class Deleter(Role):
    """Deletes rows by a condition or by their keys, after it has added some."""

    def step(self) -> None:
        kind = self.any_table()
        if len(self.mine.get(kind.name, ())) < 10 or self.dice.random() < 0.4:
            keys = self.fresh_keys()
            self.change("append", kind, lambda uid: lw.write_table(rows_of(keys, uid), self.table(kind)), puts=keys)
            return
        drops = self.known_keys(kind)
        if kind.keyed and self.dice.random() < 0.5:
            self.change(
                "delete", kind, lambda uid: lw.write_table(rows_of(drops, uid), self.table(kind), "delete"), drops=drops
            )
        else:
            self.change("delete", kind, lambda _: self.table(kind).delete(_in(drops)), drops=drops, finds=True)


class Merger(Role):
    """Merges rows, and updates those that are there."""

    def step(self) -> None:
        kind = self.any_table()
        if self.dice.random() < 0.5 and self.mine.get(kind.name):
            updates = self.known_keys(kind)
            self.change("update", kind, lambda uid: self.table(kind).update({"v": uid}, _in(updates)), updates=updates)
            return
        keys = sorted({*self.fresh_keys()[:2], *self.known_keys(kind)})
        on = ["p", "k"] if kind.partitioned else ["k"]

        def merge(uid: str) -> object:
            merging = self.table(kind).merge(rows_of(keys, uid), on)
            return merging.when_matched_update({"v": lw.source_col("v")}).when_not_matched_insert().execute()

        self.change("merge", kind, merge, puts=keys)


def _in(keys: Sequence[int]) -> str:
    return f"k IN ({', '.join(map(str, keys))})"


class Overwriter(Role):
    """Replaces its own partition, now and then the whole table."""

    def step(self) -> None:
        kind = self.any_table()
        keys = self.fresh_keys()
        whole = not kind.partitioned
        if whole and self.dice.random() < 0.85:
            self.change("append", kind, lambda uid: lw.write_table(rows_of(keys, uid), self.table(kind)), puts=keys)
            return
        partition = None if whole else {"p": self.plan.slot}

        def overwrite(uid: str) -> object:
            return lw.write_table(rows_of(keys, uid), self.table(kind), mode="overwrite", partitions=partition)

        self.change("overwrite", kind, overwrite, puts=keys, clear=-1 if whole else self.plan.slot)


class Upkeep(Role):
    """Runs operations that change no rows."""

    def run(self, verb: str, kind: TableKind, act: Callable[[], object], **facts: object) -> None:
        """Run one of them."""
        self.journal.attempt(verb, kind.name, lambda _: act(), lambda _: {}, **facts)


class Compactor(Upkeep):
    """Compacts rows and manifests."""

    def step(self) -> None:
        kind, dice = self.any_table(), self.dice
        if dice.random() < 0.15:
            self.run("compact manifests", kind, lambda: self.table(kind).compact_manifests())
        else:
            full = dice.random() < 0.4
            self.run("compact", kind, lambda: self.table(kind).compact(full=full))


class Expirer(Upkeep):
    """Expires snapshots by their count and by their age, as its own clock has it."""

    def step(self) -> None:
        kind, dice = self.any_table(), self.dice
        least = dice.randint(1, 8)
        if dice.random() < 0.6:
            most = least + dice.randint(0, 5)
            self.run(
                "expire by count", kind, lambda: self.table(kind).expire_snapshots(retain_max=most, retain_min=least)
            )
        else:
            limit = int((time.time() - dice.uniform(0, 20)) * 1000)
            self.run(
                "expire by age", kind, lambda: self.table(kind).expire_snapshots(retain_min=least, older_than=limit)
            )


class Cleaner(Upkeep):
    """Removes orphans, repairs hints, collects statistics, expires tags and verifies."""

    def step(self) -> None:
        kind = self.any_table()
        match self.dice.choice(["orphans", "orphans", "repair", "analyze", "expire tags", "verify"]):
            case "orphans":
                self.run("orphans", kind, lambda: self.table(kind).remove_orphan_files())
            case "repair":
                self.run("repair", kind, lambda: self.table(kind).repair())
            case "analyze":
                self.run("analyze", kind, lambda: self.table(kind).analyze())
            case "expire tags":
                self.run("expire tags", kind, lambda: self.table(kind).expire_tags())
            case "verify":
                self.run("verify", kind, lambda: self.table(kind).verify())


class Keeper(Upkeep):
    """Makes and removes tags and branches, and writes to branches."""

    def step(self) -> None:
        kind, dice = self.any_table(), self.dice
        name = f"n{self.plan.life}x{dice.getrandbits(30)}"
        try:
            table = self.table(kind)
            tags, branches, ids = _tags(table), table.list_branches(), table.store.snapshots.ids()
        except lw.LakewrightError:
            return
        verbs = ["tag", "tag", "drop tag", "branch", "branch", "drop branch", "write", "write", "write"]
        match dice.choice(verbs):
            case "tag" if ids and len(tags) < 6:
                of = dice.choice([ids[-1], *ids[-6:]])
                self.run("tag", kind, lambda: table.create_tag(name, of), name=name, of=of)
            case "drop tag" if tags:
                old = dice.choice(tags)
                self.run("drop tag", kind, lambda: table.delete_tag(old), name=old)
            case "branch" if len(branches) < 3 and ids:
                if tags and dice.random() < 0.6:
                    tag = dice.choice(tags)
                    self.run("branch", kind, lambda: table.create_branch(name, tag), name=name, of=tag)
                else:
                    at = dice.choice(ids[-6:])
                    act = lambda: table.create_branch(name, snapshot_id=at)  # noqa: E731
                    self.run("branch", kind, act, name=name, of=at)
            case "drop branch" if branches:
                old = dice.choice(branches)
                self.run("drop branch", kind, lambda: table.drop_branch(old), name=old)
            case "write" if branches:
                branch, keys = dice.choice(branches), self.fresh_keys()
                self.change(
                    "append",
                    kind,
                    lambda uid: lw.write_table(
                        rows_of(keys, uid), self.catalog.get_table(f"{kind.path}$branch_{branch}")
                    ),
                    puts=keys,
                    branch=branch,
                )


class Rewinder(Upkeep):
    """Goes back to snapshots and tags, restores them on top, and fast-forwards to branches."""

    def step(self) -> None:
        kind, dice = self.any_table(lambda kind: kind.rewound), self.dice
        try:
            table = self.table(kind)
            tags, branches = _tags(table), table.list_branches()
            ids = [number for number in table.store.snapshots.ids() if number >= self.base_ids[kind.name]]
        except lw.LakewrightError:
            return
        targets: list[int | str] = [*ids[-8:-1], *tags]
        match dice.choice(["rollback", "restore", "forward"]):
            case "rollback" if targets:
                of = dice.choice(targets)
                self.run("rollback", kind, lambda: table.rollback_to(of), of=of)
            case "restore" if targets:
                of = dice.choice(targets)
                self.journal.attempt(
                    "restore", kind.name, lambda _: table.rollback_to_as_latest(of), lambda s: {"id": s.id}, of=of
                )
            case "forward" if branches:
                name = dice.choice(branches)
                self.run("forward", kind, lambda: table.fast_forward(name, allow_loss=True), name=name)


def _tags(table: lw.FileStoreTable) -> list[str]:
    return [name for name in table.list_tags() if name.startswith("n")]


class Alterer(Upkeep):
    """Adds, renames, widens and drops columns, and sets options."""

    def step(self) -> None:
        kind, dice = self.any_table(), self.dice
        name = f"c{self.plan.life}x{dice.getrandbits(20)}"
        try:
            names = [n for n in self.catalog.get_table(kind.path).field_names if n.startswith("c")]
        except lw.LakewrightError:
            return
        match dice.choice(["add", "drop", "rename", "option"]):
            case "add" if len(names) < 4:
                change = SchemaChange.add_column(name, lw.AtomicType("INT"))
            case "drop" if names:
                change = SchemaChange.drop_column(dice.choice(names))
            case "rename" if names:
                change = SchemaChange.rename_column(dice.choice(names), name)
            case _:
                size, count = f"{dice.randint(1, 64)} mb", str(dice.randint(2, 30))
                change = SchemaChange.set_option(
                    *dice.choice([("target-file-size", size), ("manifest.merge-min-count", count)])
                )
        self.run("alter", kind, lambda: self.catalog.alter_table(kind.path, [change]))


class Reader(Role):
    """Reads the newest rows, older snapshots, tags and branches, and tells which commits it saw."""

    def step(self) -> None:
        kind, dice = self.any_table(), self.dice
        if dice.random() < 0.6:
            self._read(kind, "read", read_rows)
        else:
            self._read(kind, "read old", lambda table: self._read_old(kind, table))

    def _read(self, kind: TableKind, verb: str, read: Callable[[lw.FileStoreTable], Rows]) -> None:
        self.journal.attempt(
            verb, kind.name, lambda _: read(self.table(kind)), lambda rows: {"seen": sorted(set(rows.values()))}
        )

    def _read_old(self, kind: TableKind, table: lw.FileStoreTable) -> Rows:
        ids, tags, branches = table.store.snapshots.ids(), _tags(table), table.list_branches()
        places = [("snapshot_id", number) for number in ids] + [("tag", name) for name in tags]
        places += [("branch", name) for name in branches]
        if not places:
            return {}
        what, which = self.dice.choice(places)
        if what == "branch":
            return read_rows(self.catalog.get_table(f"{kind.path}$branch_{which}"))
        return read_rows(table, **{what: which})


class Follower(Role):
    """Follows a table as a consumer that goes on where the process before it was killed."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.kind = self.any_table(lambda kind: not kind.keyed and not kind.rewound)
        self.consumer = f"follower-{plan.slot}-{Path(plan.directory).name}"
        self._plans: Iterator[Any] | None = None
        self._read: Any = None

    def step(self) -> None:
        self.journal.attempt("follow", self.kind.name, self._follow, lambda told: told, consumer=self.consumer)

    def _follow(self, _: str) -> dict[str, Any]:
        if self._plans is None:
            builder = self.table(self.kind).new_stream_read_builder().with_consumer_id(self.consumer)
            self._read, scan = builder.with_projection(["k", "v"]).new_read(), builder.new_streaming_scan()
            self._plans = _planned(scan)
        try:
            plan = next(self._plans)
            if plan is None:
                return {"idle": True}
            rows = self._read.to_arrow(plan.splits())
        except Exception:
            self._plans = None
            raise
        pairs = sorted(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))
        return {"pairs": pairs, "plan": plan.snapshot_id}


def _planned(scan: Any) -> Iterator[Any]:  # noqa: ANN401 - a scan of a stream
    """Yield plans, and None where there is nothing new; what was yielded before counts as processed then."""
    while True:
        yield scan.plan()
        scan.notify_checkpoint_complete(scan.checkpoint())


class Builder(Role):
    """Creates, renames, drops and creates again tables that others write to."""

    def step(self) -> None:
        dice = self.dice
        one, other = dice.sample(TEMPORARY, 2)
        path = f"{DATABASE}.{one}"
        # On object stores a rename copies the files one by one, and no writer may be at work meanwhile.
        may_rename = not str(self.plan.catalog["warehouse"]).startswith("s3:")
        match dice.choice(["create", "create", "rename" if may_rename else "create", "drop"]):
            case "create":

                def create(uid: str) -> None:
                    keys = ["k"] if dice.random() < 0.5 else []
                    schema = lw.Schema(COLUMNS, [], keys, {"bucket": "1"} if keys else {}, uid)
                    self.catalog.create_table(path, schema)

                self.journal.attempt("create", one, create, lambda _: {})
            case "rename":
                self.journal.attempt(
                    "rename", one, lambda _: self.catalog.rename_table(path, f"{DATABASE}.{other}"), lambda _: {}
                )
            case "drop":
                self.journal.attempt("drop", one, lambda _: self.catalog.drop_table(path), lambda _: {})


class Visitor(Role):
    """Writes to and reads tables that may be dropped, renamed or made again at any moment."""

    def step(self) -> None:
        name = self.dice.choice(TEMPORARY)
        try:
            table = self.catalog.get_table(f"{DATABASE}.{name}")
        except lw.LakewrightError:
            return
        made = table.schema.comment
        if self.dice.random() < 0.3:
            self.journal.attempt("visit", name, lambda _: read_rows(table) and None, lambda _: {}, made=made)
            return
        keys = self.fresh_keys()
        time.sleep(self.dice.random() * self.plan.pause)
        self.journal.attempt(
            "put", name, lambda uid: lw.write_table(rows_of(keys, uid), table), lambda _: {}, puts=keys, made=made
        )


TEMPORARY = ("x1", "x2", "x3")
ROLES: dict[str, type[Role]] = {
    "append": Appender,
    "upsert": Upserter,
    "delete": Deleter,
    "merge": Merger,
    "overwrite": Overwriter,
    "compact": Compactor,
    "expire": Expirer,
    "clean": Cleaner,
    "name": Keeper,
    "rewind": Rewinder,
    "alter": Alterer,
    "replay": Replayer,
    "follow": Follower,
    "build": Builder,
    "visit": Visitor,
    "read": Reader,
}
