"""What is looked at while all processes rest: every table, tag, branch and snapshot, every read and every stream."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.metadata.table_store import TableStore
from support.chaos.journal import DONE, FAILED, Operation
from support.chaos.model import COMMITS, Commits, History, Past, check_rows
from support.chaos.roles import DATABASE, TEMPORARY, TableKind, read_rows

SNAPSHOTS_READ_MAX = 15  # of one table at one look, besides the newest one
WRONG_MAX = 40


@dataclass
class Checker:
    """Knows what all tables held at the last look, and compares what they hold now with what the journals allow."""

    catalog: lw.Catalog
    tables: Sequence[TableKind]
    directory: Path
    dice: Random
    removes_orphans_after: float = 0.01  # seconds until a file counts as older than now
    pasts: dict[str, Past] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    temporary: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))  # by what made the table
    streams: dict[str, list[Operation]] = field(default_factory=lambda: defaultdict(list))
    earlier: dict[str, set[str]] = field(
        default_factory=lambda: defaultdict(set)
    )  # commits that old snapshots may have
    acknowledged: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # commits and what was replayed
    appended: dict[str, dict[str, Operation]] = field(default_factory=lambda: defaultdict(dict))

    def settle(self) -> None:
        """Write what the processes of the next epoch begin with."""
        known = {}
        for kind in self.tables:
            past = self.pasts.setdefault(kind.name, Past())
            known[kind.name] = {"keys": sorted(past.rows), "latest": past.latest_id}
        (self.directory / "settled.json").write_text(json.dumps(known))

    def check(self, operations: Sequence[Operation], *, clean: bool) -> list[str]:
        """Return everything that the operations of an epoch do not explain."""
        for one in operations:
            self.outcomes[f"{one.verb}: {one.outcome}"] += 1
            if one.error and not one.raw:
                self.errors[f"{one.verb}: {one.error.split(':')[0]}"] += 1
        wrong = [f"{one.verb} of {one.table} by {one.uid} raised {one.raw}" for one in operations if one.raw]
        for kind in self.tables:
            mine = [one for one in operations if one.table == kind.name]
            try:
                wrong += self._check_table(kind, mine, clean=clean)
            except Exception as error:  # noqa: BLE001 - the others are looked at all the same
                wrong.append(f"{kind.name} cannot be read: {error!r}")
        wrong += self._check_temporary(operations)
        return wrong[:WRONG_MAX]

    # Tables.

    def _check_table(self, kind: TableKind, operations: Sequence[Operation], *, clean: bool) -> list[str]:
        past = self.pasts[kind.name]
        acknowledged = self.acknowledged[kind.name]
        history, commits = History(past, operations, acknowledged), Commits(past, operations, self.earlier[kind.name])
        table = self.catalog.get_table(kind.path)
        now = self._observe(kind, table)
        wrong = []
        allowed = history.state()
        self.counts["states that are known exactly" if allowed is not None else "states that are known in part"] += 1
        wrong += check_rows(kind.name, now.rows, allowed) + commits.check(kind.name, now.rows)
        for name, (_, rows) in now.tags.items():
            wanted = history.tags.get(name, (0, None))[1]
            wrong += check_rows(f"{kind.name}, tag {name}", rows, wanted) + commits.check(
                f"{kind.name}, tag {name}", rows
            )
        for name, (*_, rows) in now.branches.items():
            what = f"{kind.name}, branch {name}"
            wanted = history.branches[name].state() if name in history.branches else None
            wrong += check_rows(what, rows, wanted) + commits.check(what, rows)
        lasting_tags = {*past.tags, *history.lasting(operations, "tag")} if not history.rewinds else set()
        lasting = (lasting_tags - history.gone - set(now.tags)) | (
            ({*past.branches, *history.lasting(operations, "branch")} - history.gone) - set(now.branches)
        )
        wrong += [f"{kind.name}: the tag or branch {name} is gone" for name in lasting]
        wrong += self._check_snapshots(kind, table, commits)
        wrong += self._check_reads(kind, operations, commits, rewound=bool(history.rewinds))
        wrong += self._check_streams(kind, operations)
        wrong += self._verify(kind, table)
        if clean and not wrong:
            wrong += self._clean(kind, table, now)
        self.pasts[kind.name] = now
        self.earlier[kind.name] |= commits.by_uid.keys() - commits.failed
        acknowledged |= {
            one.facts.get("of", one.uid) for one in operations if one.outcome == DONE and one.facts.get("puts")
        }
        if history.rewinds:
            acknowledged.clear()  # what was removed may be committed again
        return wrong

    def _observe(self, kind: TableKind, table: lw.FileStoreTable) -> Past:
        """Read the newest rows, all tags and all branches."""
        snapshots = table.store.snapshots
        now = Past(read_rows(table), snapshots.latest_id() or 0)
        for tag in table.store.tags.all():
            rows = read_rows(table, tag=tag.name)
            if tag.name.startswith("n"):
                now.tags[tag.name] = (tag.snapshot.id, rows)
        for name in table.list_branches():
            branch = self.catalog.get_table(f"{kind.path}$branch_{name}")
            ids = branch.store.snapshots.ids() or [0]
            now.branches[name] = (ids[0], ids[-1], read_rows(branch))
        self.counts["tags and branches read"] += len(now.tags) + len(now.branches)
        return now

    def _check_snapshots(self, kind: TableKind, table: lw.FileStoreTable, commits: Commits) -> list[str]:
        ids = table.store.snapshots.ids()
        wrong = []
        if ids and ids != list(range(ids[0], ids[-1] + 1)):
            wrong.append(f"{kind.name}: the ids of snapshots have gaps: {ids}")
        for number in self.dice.sample(ids, min(len(ids), SNAPSHOTS_READ_MAX)):
            self.counts["snapshots read"] += 1
            what = f"{kind.name}, snapshot {number}"
            try:
                wrong += commits.check(what, read_rows(table, snapshot_id=number))
            except Exception as error:  # noqa: BLE001 - it is listed with the others
                wrong.append(f"{what}: {error!r}")
        return wrong

    def _verify(self, kind: TableKind, table: lw.FileStoreTable) -> list[str]:
        self.counts["runs of verify"] += 1
        result = table.verify(full=True, snapshots="all")
        return [f"{kind.name}: verify says {one}" for one in result.findings if one.severity == "error"]

    def _clean(self, kind: TableKind, table: lw.FileStoreTable, before: Past) -> list[str]:
        """Remove orphans of any age, those of killed processes: nothing changes, and no other file is left."""
        time.sleep(self.removes_orphans_after)
        table.remove_orphan_files(older_than=int(time.time() * 1000))
        self.counts["removals of orphans"] += 1
        wrong = [] if self._observe(kind, table) == before else [f"{kind.name}: removing orphans changed something"]
        # As files alone show the table: where a server owns the history, its answers are no part of this.
        plain = TableStore(table.store.name, table.store.storage, table.store.layout, table.store.schema)
        stray = sorted(path for path in stray_files(plain) if not path.rpartition("/")[2].startswith("consumer-"))
        wrong += [f"{kind.name}: {path} is not in use and was not removed" for path in stray]
        return wrong

    # Reads.

    def _check_reads(
        self, kind: TableKind, operations: Sequence[Operation], commits: Commits, *, rewound: bool
    ) -> list[str]:
        """Check that reads saw no refused commits, and all that were acknowledged before they began."""
        wrong = []
        lone = [
            one
            for one in commits.by_uid.values()
            if one.outcome == DONE
            and "branch" not in one.facts
            and one.facts.get("puts")
            and all(commits.touched[key] == 1 for key in one.facts["puts"])
        ]
        for read in operations:
            if read.verb not in {"read", "read old"} or read.outcome != DONE:
                continue
            seen = set(read.facts["seen"])
            wrong += [
                f"{kind.name}: a read saw rows of {uid}, which was refused or never written"
                for uid in seen - commits.old
                if uid in commits.failed or uid not in commits.by_uid
            ]
            if read.verb == "read" and not rewound and not commits.clears:
                wrong += [
                    f"{kind.name}: a read did not see {one.uid}, which was acknowledged before"
                    for one in lone
                    if one.end < read.begin and one.uid not in seen
                ]
            self.counts["reads checked"] += 1
        return wrong

    def _check_streams(self, kind: TableKind, operations: Sequence[Operation]) -> list[str]:
        """Check that a consumer got each appended row once, whatever happened to its processes."""
        appended = self.appended[kind.name]
        appended |= {
            one.uid: one
            for one in operations
            if one.verb == "append" and one.outcome == DONE and "branch" not in one.facts
        }
        for one in operations:
            if one.verb == "follow" and "plan" in one.facts:
                self.streams[one.facts["consumer"]].append(one)
        wrong = []
        for consumer, plans in self.streams.items():
            if plans[0].table != kind.name:
                continue
            first, last = plans[0].facts["plan"], max(one.facts["plan"] for one in plans)
            places: dict[tuple[int, str], set[int]] = defaultdict(set)
            for one in plans:
                for key, value in one.facts["pairs"]:
                    places[key, value].add(one.facts["plan"])
            got = {value for _, value in places}
            wrong += [
                f"{kind.name}: the stream {consumer} had no rows of {uid}, snapshot {one.snapshot_id}"
                for uid, one in appended.items()
                if one.snapshot_id is not None and first < one.snapshot_id <= last and uid not in got
            ]
            wrong += [
                f"{kind.name}: the stream {consumer} had the row {pair} in the snapshots {sorted(ids)}"
                for pair, ids in places.items()
                if len(ids - {first}) > 1
            ]
            self.counts["rows of streams"] = sum(len(one.facts["pairs"]) for one in plans)
        return wrong

    # Tables that are dropped.

    def _check_temporary(self, operations: Sequence[Operation]) -> list[str]:
        """Check that a table that was made again has what was written to it, and nothing of those before it."""
        written: dict[str, list[Operation]] = defaultdict(list)
        for one in operations:
            if one.verb == "put":
                written[str(one.facts["made"])].append(one)
        wrong, listed = [], set(self.catalog.list_tables(DATABASE))
        for name in sorted({*TEMPORARY} & listed):
            table = self.catalog.get_table(f"{DATABASE}.{name}")
            made = str(table.schema.comment)
            rows = read_rows(table)
            self.counts["temporary tables read"] += 1
            wanted = self.temporary[made]
            perhaps: dict[int, str] = {}
            for one in written[made]:
                if one.outcome != FAILED:
                    (wanted if one.outcome == DONE else perhaps).update(dict.fromkeys(one.facts["puts"], one.uid))
            lost = {key: value for key, value in wanted.items() if rows.get(key) != value}
            more = {key: value for key, value in rows.items() if value not in (wanted.get(key), perhaps.get(key))}
            wrong += [f"{name} of {made} lacks {lost}"] * bool(lost) + [f"{name} of {made} has also {more}"] * bool(
                more
            )
            self.temporary[made] = rows
        return wrong


def describe(checker: Checker, crew: Mapping[str, int]) -> str:
    """Return the counts of a run."""
    by_verb: dict[str, list[str]] = defaultdict(list)
    for text, count in sorted(checker.outcomes.items()):
        verb, outcome = text.split(": ")
        by_verb[verb].append(f"{count} {outcome}")
    commits = sum(n for text, n in checker.outcomes.items() if text.endswith(DONE) and text.split(":")[0] in COMMITS)
    lines = [
        f"{checker.outcomes.total()} operations, {commits} commits acknowledged; {dict(crew)}; {dict(checker.counts)}"
    ]
    lines += [f"  {verb}: {', '.join(texts)}" for verb, texts in by_verb.items()]
    lines += [f"  {count} x {text}" for text, count in checker.errors.most_common()]
    return "\n".join(lines)
