"""Manifests and the unpublished snapshot of an attempt.

What does not depend on the base (the manifest of new files, the changelog) is written once and used by every attempt.
What does is written for each attempt, and deleted when the attempt is known to have lost the race. So a retry costs one
manifest list, and lost races leave no files. The cost grows with the change, not with the table: manifests of the base
are named again, not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from lakewright.commit.commit_changes import MessageFile, assign_row_ids, order_by_snapshot, record_count
from lakewright.commit.commit_plan import CommitPlan, CommitRequest, NewStatistics
from lakewright.commit.conflicts import Conflict, conflict_error
from lakewright.commit.sequence_renumbering import Renumbering
from lakewright.errors import AlreadyExistsError, TableNotExistException
from lakewright.metadata.manifest_files import Manifests, Namer
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, ManifestEntry, ManifestFile
from lakewright.spec.snapshot import MIN_LONG, CommitKind, Snapshot, is_same_commit
from lakewright.storage.concurrency import CallGroup, DeferredCall
from lakewright.version import __version__

T = TypeVar("T")
_MARKER_TRIES_MAX = 5
_HIGHEST_NUMBER = "sequence.generation.max-sequence-number"


@dataclass(frozen=True, slots=True)
class UnpublishedSnapshot:
    """A snapshot whose manifests are written and which is not visible yet."""

    snapshot: Snapshot
    base: Snapshot | None
    files: tuple[str, ...]  # metadata files that only this draft names
    entries: tuple[ManifestEntry, ...] = ()  # the data files that it adds and deletes


@dataclass(frozen=True, slots=True)
class CommitEnvironment:
    """What a commit takes from outside: clock, sleep, random numbers, new uuids. A test gives its own."""

    clock: Callable[[], int]  # epoch milliseconds
    sleep: Callable[[float], None]  # seconds
    random: Callable[[], float]  # in [0, 1)
    new_uuid: Callable[[], str]


@dataclass(slots=True)
class SnapshotProducer:
    """Every draft of one intent."""

    store: TableStore
    intent: CommitRequest
    environment: CommitEnvironment
    _manifests: Manifests = field(init=False)
    _salt: bytes = field(init=False)
    _renumbering: Renumbering | None = None  # of rows with keys
    _newest_schema: int | None = None  # when the first draft began
    _schema_id: int = 0  # of the draft that is being written
    _written: list[str] = field(default_factory=list)  # files of the draft that is being written
    _kept: list[str] = field(default_factory=list)  # files that every draft names
    _new_files: tuple[ManifestFile, ...] | None = None
    _delta_list: tuple[str, int] | None = None
    _changelog_list: tuple[str, int] | None = None
    _merged: tuple[tuple[str, ...], tuple[ManifestFile, ...]] | None = None
    _base_files: DeferredCall[list[ManifestFile]] | None = (
        None  # the manifests of the base that the next draft is made on
    )
    _schema_ids: DeferredCall[list[int]] | None = None

    def __post_init__(self) -> None:
        # Two processes that commit the same messages write the same entries. The salt makes their bytes differ, so that
        # after a lost reply a process can see whether the marker in the storage is its own.
        unique = self.environment.new_uuid()
        self._salt = unique.encode()
        self._manifests = self._manifests_named(unique)
        if self.intent.numbering is not None:
            self._renumbering = Renumbering(self.store, self.intent, self.environment.random, self.environment.new_uuid)

    @property
    def can_claim(self) -> bool:
        """Return whether the manifest of the new files does not depend on the base, so that it can be written first."""
        intent = self.intent
        return intent.only_adds and bool(intent.change.entries) and not self._numbers_anew

    @property
    def _numbers_anew(self) -> bool:
        """Return whether the entries depend on the snapshot that the commit becomes."""
        options = self.store.options
        return options.row_tracking_enabled or self._orders_by_snapshot

    @property
    def _orders_by_snapshot(self) -> bool:
        ordered = self.store.options.sequence_snapshot_ordering
        return ordered and bool(self.store.schema.primary_keys) and self.intent.kind is not CommitKind.COMPACT

    def ask_early(self, base: Snapshot | None, errands: CallGroup) -> None:
        """Ask for what the next draft needs of its base, while the commit does something else."""
        self._base_files = None if base is None else errands.start(partial(self._manifests.files_of, base))
        if self._newest_schema is None:
            self._schema_ids = errands.start(self.store.schemas.ids)

    def claim(self) -> bool:
        """Write the manifest of the new files, and return whether it had not been written before."""
        self._new_files = self._write_manifests(self.intent.change.entries, self._kept, marked=True)
        return all(self.intent.marker in file.file_name for file in self._new_files)

    def draft(self, plan: CommitPlan, *, in_doubt: bool = False) -> UnpublishedSnapshot:
        """Write the metadata files of a plan, and copies of data files whose sequence numbers are too low for its base.

        With `in_doubt` an earlier draft may be published, so that nothing it names is deleted. When this returns, the
        files are durable, and the table is not another one by now: the snapshot can be published.
        """
        if self._renumbering is not None:
            plan = self._renumbering.apply(plan, keep=in_doubt)
        self._written = []
        self._schema_id = self._schema_on(plan.base)
        if self.intent.details.statistics is not None:
            self._check_analyzed(self.intent.details.statistics, plan.base)
        try:
            snapshot = self._snapshot(plan)
        except Exception:
            self._delete(self._written)
            raise
        if self._renumbering is not None:
            self._renumbering.remember(snapshot, plan)
        return UnpublishedSnapshot(snapshot, plan.base, tuple(self._written), plan.change.entries)

    def remove_unused_copies(self, published: Snapshot, *, with_originals: bool) -> None:
        """Delete the copies of data files that a published snapshot does not name, with originals it has copies of."""
        if self._renumbering is not None:
            self._renumbering.remove_unused_copies(published, with_originals=with_originals)

    def kept_files(self) -> list[MessageFile]:
        """Return the files of earlier drafts that further drafts name: metadata, and copies of data files."""
        copies = [] if self._renumbering is None else self._renumbering.copies()
        return [*self.metadata_files(self._kept), *copies]

    def metadata_files(self, names: Iterable[str]) -> list[MessageFile]:
        """Return metadata files by their names."""
        return [MessageFile(name, self.store.layout.manifest_file(name), None) for name in names]

    def discard(self, draft: UnpublishedSnapshot, *, keep_marker: bool = False) -> None:
        """Delete what only this draft named, once it is known that it was not published.

        With `keep_marker` the marker stays: the commit was published by other means, and a replay looks for it.
        """
        self._delete([name for name in draft.files if not (keep_marker and self.intent.marker in name)])

    def discard_rest(self, *, keep_marker: bool = False) -> None:
        """Delete what was kept for further drafts, once there will be none."""
        self._delete([name for name in self._kept if not (keep_marker and self.intent.marker in name)])
        self._kept = []
        if self._renumbering is not None:
            self._renumbering.remove_all_copies()

    def _snapshot(self, plan: CommitPlan) -> Snapshot:
        intent, base = self.intent, plan.base
        snapshot_id = 1 if base is None else base.id + 1
        manifests = self._base_manifests(base)
        entries, next_row_id = self._number_entries(plan, snapshot_id)
        with CallGroup(self.store.storage) as errands:
            base_file = errands.start(lambda: self._write_list(manifests, self._written))
            delta_file = errands.start(lambda: self._write_delta(entries))
            changelog_file = errands.start(lambda: self._write_changelog(plan))
            index_file = errands.start(lambda: self._index_manifest(plan))
            same_table = errands.start(self.store.check_same_table)
            base_list, delta_list = base_file.result(), delta_file.result()
            changelog_list, index = changelog_file.result(), index_file.result()
            same_table.result()
        delta_rows = record_count(entries)
        return Snapshot(
            id=snapshot_id,
            schema_id=self._schema_id,
            base_manifest_list=base_list[0],
            base_manifest_list_size=base_list[1],
            delta_manifest_list=delta_list[0],
            delta_manifest_list_size=delta_list[1],
            changelog_manifest_list=None if changelog_list is None else changelog_list[0],
            changelog_manifest_list_size=None if changelog_list is None else changelog_list[1],
            index_manifest=index,
            commit_user=intent.user,
            commit_identifier=intent.identifier,
            commit_kind=intent.kind,
            time_millis=self.environment.clock(),
            uuid=self.environment.new_uuid(),
            writer_version=f"lakewright-{__version__}",
            total_record_count=delta_rows + (0 if base is None else base.total_record_count or 0),
            delta_record_count=delta_rows,
            changelog_record_count=None if changelog_list is None else record_count(plan.change.changelog),
            watermark=_watermark(base, intent),
            statistics=self._statistics(base),
            properties={**intent.details.properties, **self._highest_number(base, entries)},
            next_row_id=next_row_id,
            operation=intent.details.operation,
        )

    def _statistics(self, base: Snapshot | None) -> str | None:
        """Return the name of the statistics: new ones, else those of the base until the schema moves on."""
        if self.intent.details.statistics is not None:
            return self.intent.details.statistics.file_name
        return base.statistics if base is not None and base.schema_id == self._schema_id else None

    def _check_analyzed(self, new: NewStatistics, base: Snapshot | None) -> None:
        """Raise CommitConflictError if new statistics are of columns or rows that this line of history lacks."""
        why = None
        if new.schema_id != self._schema_id:
            why = f"the columns of schema {new.schema_id} were analyzed, and the newest schema is {self._schema_id}"
        else:
            there = None if base is None else base if base.id <= new.of.id else self.store.snapshots.find(new.of.id)
            # A snapshot that expired since then is as good as one that is there.
            if base is None or (there is not None and not is_same_commit(there, new.of)):
                why = f"snapshot {new.of.id}, which was analyzed, was rolled back"
        if why is not None:
            conflict = Conflict(why, (), "analyze the table again")
            intent = self.intent
            raise conflict_error(conflict, table=self.store.name, user=intent.user, kind=intent.kind, other=base)

    def _number_entries(self, plan: CommitPlan, snapshot_id: int) -> tuple[tuple[ManifestEntry, ...], int]:
        """Return the entries as this snapshot records them, and the first row id that stays free."""
        # Every snapshot records it, also one that assigns no row ids: without it the next would assign them again.
        start = 0 if plan.base is None else plan.base.next_row_id or 0
        options = self.store.options
        if self._orders_by_snapshot:
            return order_by_snapshot(plan.change.entries, snapshot_id), start
        if not options.row_tracking_enabled:
            return plan.change.entries, start
        by_partition = options.row_tracking_partition_group_on_commit
        return assign_row_ids(
            plan.change.entries, snapshot_id=snapshot_id, next_row_id=start, by_partition=by_partition
        )

    def _highest_number(self, base: Snapshot | None, entries: Sequence[ManifestEntry]) -> dict[str, str]:
        """Return the property with the highest sequence number, for writers that do not read it from the files.

        If the base lacks the property, so does the new snapshot: a number that is too low is worse than none.
        """
        mode = self.store.options.write_sequence_number_init_mode
        before = "" if base is None else base.properties.get(_HIGHEST_NUMBER, "")
        if mode != "snapshot" or not self.store.schema.primary_keys or not (base is None or before.isdigit()):
            return {}
        highest = max([int(before or -1), *(e.file.max_sequence_number for e in entries if e.kind == ADD)])
        return {_HIGHEST_NUMBER: str(highest)} if highest >= 0 else {}

    def _base_manifests(self, base: Snapshot | None) -> tuple[ManifestFile, ...]:
        """Return the manifests before this commit, merged by the format's rules."""
        if base is None:
            return ()
        early, self._base_files = self._base_files, None
        inputs = tuple(self._manifests.files_of(base) if early is None else early.result())
        names = tuple(m.file_name for m in inputs)
        if self._merged is None:
            merged = self._manifests.merge(inputs)
            self._kept += [m.file_name for m in merged.written]
            self._merged = (names, merged.files)
            return merged.files
        # On a retry the base has more manifests, after those that were merged. If it has others in their place, another
        # commit merged them too, and our merged manifests are deleted.
        merged_names, outputs = self._merged
        if names[: len(merged_names)] == merged_names:
            return (*outputs, *inputs[len(merged_names) :])
        unused = [m.file_name for m in outputs if m.file_name in self._kept]
        self._kept = [name for name in self._kept if name not in unused]
        self._delete(unused)
        if self.intent.kind is CommitKind.COMPACT and self.intent.change.is_empty:
            self._merged = None  # nothing but the merge is asked for
            return self._base_manifests(base)
        self._merged = (names, inputs)
        return inputs

    def _write_delta(self, entries: Sequence[ManifestEntry]) -> tuple[str, int]:
        """Write the delta list, and the manifests that are not written yet."""
        ours = len(entries) - len(self.intent.change.entries)
        # Entries that depend on this base cannot be used by other drafts. If a manifest of the original entries was
        # written before, it stays, because a replay of the messages looks for its name.
        if self._numbers_anew or tuple(entries[ours:]) != self.intent.change.entries:
            files = self._write_manifests(entries, self._written, marked=True)
            return self._write_list(files, self._written)
        if self._new_files is None:
            self._new_files = self._write_manifests(entries[ours:], self._kept, marked=True)
        if self.intent.replaced is None:
            if self._delta_list is None:
                self._delta_list = self._write_list(self._new_files, self._kept)
            return self._delta_list
        gone = self._write_manifests(entries[:ours], self._written, marked=False)
        return self._write_list((*gone, *self._new_files), self._written)

    def _write_changelog(self, plan: CommitPlan) -> tuple[str, int] | None:
        if plan.change.changelog != self.intent.change.changelog:
            return self._write_changelog_list(plan.change.changelog, self._written)
        if plan.change.changelog and self._changelog_list is None:
            self._changelog_list = self._write_changelog_list(plan.change.changelog, self._kept)
        return self._changelog_list

    def _write_changelog_list(self, entries: Sequence[ManifestEntry], names: list[str]) -> tuple[str, int] | None:
        if not entries:
            return None
        return self._write_list(self._write_manifests(entries, names, marked=False), names)

    def _index_manifest(self, plan: CommitPlan) -> str | None:
        """Write the index manifest, which is the marker of a commit that changes index files only."""
        entries = plan.index
        if entries is None:
            return None if plan.base is None else plan.base.index_manifest
        name = self._write_marked("index-manifest", lambda manifests: manifests.write_index(entries))
        self._written.append(name)
        return name

    def _write_manifests(
        self, entries: Sequence[ManifestEntry], names: list[str], *, marked: bool
    ) -> tuple[ManifestFile, ...]:
        """Write entries to manifests; with `marked` the first has the name that a replay looks for."""

        def write(manifests: Manifests) -> tuple[ManifestFile, ...]:
            return tuple(manifests.write(entries, schema_id=self._schema_id))

        files = self._write_marked("manifest", write) if marked else write(self._manifests)
        names += [m.file_name for m in files]
        return files

    def _write_marked(self, kind: str, write: Callable[[Manifests], T]) -> T:
        """Write a file under the name of the marker, or under another name if the marker exists already."""
        path = self.store.layout.manifest_file(f"{kind}-{self.intent.marker}-0")
        for _ in range(_MARKER_TRIES_MAX):
            with suppress(AlreadyExistsError):
                return write(self._manifests_named(self.intent.marker))
            # An attempt that was cut short left it, or another process commits the same messages now. But some object
            # stores also say "exists" of a name while another request for it is running, so look.
            if self.store.storage.exists(path):
                return write(self._manifests)
        raise OSError(f"{path} cannot be created, though nothing is there")

    def _write_list(self, manifests: Sequence[ManifestFile], names: list[str]) -> tuple[str, int]:
        name, size = self._manifests.write_list(manifests)
        names.append(name)
        return name, size

    def _schema_on(self, base: Snapshot | None) -> int:
        """Return the id of the newest schema: looked up once, because the bases of later attempts show later ones."""
        if self._newest_schema is None:
            ids = self.store.schemas.ids() if self._schema_ids is None else self._schema_ids.result()
            if not ids:
                raise TableNotExistException(
                    f"{self.store.name} has no schema any more: it was dropped or renamed; get it from its catalog",
                    table=self.store.name,
                )
            self._newest_schema = ids[-1]
        return self._newest_schema if base is None else max(self._newest_schema, base.schema_id)

    def _manifests_named(self, unique: str) -> Manifests:
        return replace(self.store.manifests, namer=Namer(lambda: UUID(unique)), salt=self._salt)

    def _delete(self, names: Sequence[str]) -> None:
        """Delete metadata that nothing refers to. What cannot be deleted is left to the removal of orphans."""
        for name in names:
            with suppress(OSError):
                self._manifests.delete(name)


def _watermark(base: Snapshot | None, intent: CommitRequest) -> int | None:
    marks = (None if base is None else base.watermark, intent.details.watermark)
    return max((mark for mark in marks if mark is not None and mark != MIN_LONG), default=None)
