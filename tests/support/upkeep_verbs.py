"""All operations of a mix, and those on the history of a table: what the model knows in, one random attempt out."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import polars as pl

import lakewright as lw
from lakewright.errors import BranchAlreadyExistException, InvalidInputError
from support.upkeep_book import MAIN, State, stored
from support.upkeep_mix import Attempt, Lines, accepting
from support.upkeep_rows import RowVerbs

WEIGHTS = {
    "append": 12,
    "upsert": 6,
    "merge": 5,
    "delete": 5,
    "update": 5,
    "delete keys": 3,
    "by row id": 4,
    "overwrite": 2,
    "overwrite partition": 2,
    "truncate": 1,
    "alter": 3,
    "update added column": 3,
    "compact": 8,
    "compact in order": 2,
    "compact partition": 2,
    "compact metadata": 3,
    "rescale": 1,
    "expire": 9,
    "expire partition": 1,
    "append and expire": 2,
    "create tag": 6,
    "change tag": 3,
    "delete tag": 3,
    "expire tags": 1,
    "automatic tag": 2,
    "create branch": 5,
    "drop branch": 2,
    "rename branch": 2,
    "fast-forward": 3,
    "rollback": 4,
    "roll back as latest": 3,
    "orphans": 5,
    "consumer": 2,
    "repair": 2,
    "mark done": 1,
    "purge": 0.3,
}
_FROM_SNAPSHOT = "snapshot_id" in inspect.signature(lw.FileStoreTable.create_branch).parameters


class UpkeepVerbs(RowVerbs):
    """Draws operations and plans those on the history. Each method returns None where there is nothing to do it to."""

    def __iter__(self) -> Iterator[tuple[str, Attempt]]:
        """Yield random operations, each planned when it is asked for; those with nothing to do are left out."""
        plans = self.all()
        while True:
            [name] = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            attempt = plans[name]()
            if attempt is not None:
                yield name, attempt

    def all(self) -> dict[str, Callable[[], Attempt | None]]:
        """Return the methods by the names of the operations."""
        rows = {
            verb: (lambda verb=verb: self.change_rows(verb))
            for verb in ("append", "upsert", "merge", "delete", "update")
        }
        return rows | {
            "delete keys": self.delete_keys,
            "by row id": self.by_row_id,
            "overwrite": self.overwrite,
            "overwrite partition": self.overwrite_partition,
            "truncate": self.truncate,
            "alter": self.alter,
            "update added column": self.update_added,
            "compact": self.compact,
            "compact in order": self.compact_in_order,
            "compact partition": self.compact_partition,
            "compact metadata": self.compact_metadata,
            "rescale": self.rescale,
            "expire": self.expire,
            "expire partition": self.expire_partition,
            "append and expire": self.append_and_expire,
            "create tag": self.create_tag,
            "change tag": self.change_tag,
            "delete tag": self.delete_tag,
            "expire tags": self.expire_tags,
            "automatic tag": self.automatic_tag,
            "create branch": self.create_branch,
            "drop branch": self.drop_branch,
            "rename branch": self.rename_branch,
            "fast-forward": self.fast_forward,
            "rollback": self.rollback,
            "roll back as latest": self.restore,
            "orphans": self.orphans,
            "consumer": self.consumer,
            "repair": self.repair,
            "mark done": self.mark_done,
            "purge": self.purge,
        }

    # Growing old.

    def expire(self) -> Attempt:
        branch, mix = self._branch(), self.mix
        before = self._line(branch)
        least = self.random.randint(1, 4)
        most = least + self.random.randint(0, 3)
        by_time = self.random.random() < 0.3
        first = before.newest - (least if by_time else most) + 1
        first = min([first, *before.consumers.values()])
        kept = {number: key for number, key in before.snapshots.items() if number >= first}
        kept = kept or {number: key for number, key in before.snapshots.items() if number == before.newest}

        def call(catalog: lw.Catalog) -> None:
            table = mix.table(branch, catalog)
            if by_time:
                table.expire_snapshots(retain_min=least, older_than=int(time.time() * 1000))
            else:
                table.expire_snapshots(retain_max=most, retain_min=least)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, branch)
            now = after[branch]
            assert (now.tags, now.schemas, now.consumers) == (before.tags, before.schemas, before.consumers)
            assert kept.items() <= now.snapshots.items() <= before.snapshots.items()
            gone = set(before.snapshots) - set(now.snapshots)
            assert not gone or max(gone) < min(now.snapshots)
            assert not done or by_time or now.snapshots == kept

        return Attempt(f"keep {least} to {most}{' by time' * by_time} on {branch}", call, judge)

    def expire_partition(self) -> Attempt | None:
        if not self.mix.partition_keys:
            return None
        branch = self._branch()
        rows = self._rows(branch)
        wanted = [rows.filter(pl.col("p") != place) for place in range(3)]

        def act(table: lw.FileStoreTable) -> None:
            table.expire_partitions("1 ms", strategy="update-time", max_expires=1)

        return self._commit("expire one partition", branch, act, *wanted, rows)

    def append_and_expire(self) -> Attempt:
        branch, mix = self._branch(), self.mix
        new = self._new_rows(branch, 3)
        rows = self._rows(branch)
        kept = rows.join(new, on=mix.keys, how="anti") if mix.keys else rows
        wanted = stored(pl.concat([kept, new]), self._line(branch).columns)
        options = {"snapshot.num-retained.max": "5", "snapshot.num-retained.min": "2", "lakewright.expire.grace": "0 s"}
        return Attempt(
            f"append on {branch}, and expire after the commit",
            lambda catalog: lw.write_table(new, mix.table(branch, catalog).copy(options)),
            lambda after, done: mix.judge_commit(branch, [wanted], after, done=done, expires=True),
            killable=False,
        )

    # Tags.

    def _judge_tags(
        self, branch: str, gone: set[str], new: Mapping[str, tuple[int, str]]
    ) -> Callable[[Lines, bool], None]:
        """Return a judge of a change of tags, of which a killed call may have made a part."""
        mix, before = self.mix, self._line(branch)
        wanted = {name: at for name, at in before.tags.items() if name not in gone} | dict(new)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, branch)
            now = after[branch]
            assert (now.snapshots, now.schemas) == (before.snapshots, before.schemas)
            if done:
                assert now.tags == wanted
                return
            for name, at in now.tags.items():
                assert at in (before.tags.get(name), new.get(name)), name
            assert set(before.tags) - gone - set(new) <= set(now.tags)
            assert gone <= set(now.tags) or set(new) <= set(now.tags)

        return judge

    def create_tag(self) -> Attempt | None:
        branch, mix, name = self._branch(), self.mix, f"t{next(self.names)}"
        line = self._line(branch)
        if not (ids := self._whole_ids(branch)) or len(line.tags) > 4:
            return None
        number = self.random.choice([*ids, line.newest])
        kept = self.random.choice([None, None, "1 ms", "1 d"])
        return Attempt(
            f"tag {name} at {number} for {kept} on {branch}",
            lambda catalog: mix.table(branch, catalog).create_tag(name, number, time_retained=kept),
            self._judge_tags(branch, set(), {name: (number, line.snapshots[number])}),
        )

    def change_tag(self) -> Attempt | None:
        branch, mix = self._branch(), self.mix
        line = self._line(branch)
        if not line.tags or not (ids := self._whole_ids(branch)):
            return None
        name, new = self.random.choice(list(line.tags)), f"t{next(self.names)}"
        if self.random.random() < 0.5:
            return Attempt(
                f"tag {name} becomes {new} on {branch}",
                lambda catalog: mix.table(branch, catalog).rename_tag(name, new),
                self._judge_tags(branch, {name}, {new: line.tags[name]}),
            )
        number = self.random.choice(ids)
        return Attempt(
            f"tag {name} moves to {number} on {branch}",
            lambda catalog: mix.table(branch, catalog).replace_tag(name, number),
            self._judge_tags(branch, set(), {name: (number, line.snapshots[number])}),
        )

    def delete_tag(self) -> Attempt | None:
        branch, mix = self._branch(), self.mix
        if not (tags := self._line(branch).tags):
            return None
        name = self.random.choice(list(tags))
        return Attempt(
            f"{name} on {branch}",
            lambda catalog: mix.table(branch, catalog).delete_tag(name),
            self._judge_tags(branch, {name}, {}),
        )

    def expire_tags(self) -> Attempt:
        time.sleep(0.003)  # the time of the tags of one millisecond is over
        branch, mix = self._branch(), self.mix
        texts = self._line(branch).tag_texts
        gone = {name for name, text in texts.items() if text.get("tagTimeRetained") in (0.001, "PT0.001S")}
        return Attempt(
            f"{sorted(gone)} on {branch}",
            lambda catalog: mix.table(branch, catalog).expire_tags(),
            self._judge_tags(branch, gone, {}),
        )

    def automatic_tag(self) -> Attempt | None:
        branch, mix = self._branch(), self.mix
        line = self._line(branch)
        if not line.snapshots:
            return None
        options = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "daily"}
        return Attempt(
            f"on {branch}",
            lambda catalog: mix.table(branch, catalog).copy(options).create_due_tags(),
            self._judge_tags(branch, set(), {"daily": (line.newest, line.snapshots[line.newest])}),
            finish=lambda catalog: mix.table(branch, catalog).copy(options).create_due_tags(),
        )

    # Branches.

    def create_branch(self) -> Attempt | None:
        mix, name, lines = self.mix, f"b{next(self.names)}", self.mix.lines
        main = self._line(MAIN)
        if len(lines) > 3:
            return None
        tag = self.random.choice([*main.tags, None]) if main.tags else None
        ids = self._whole_ids(MAIN)
        at = self.random.choice(ids) if ids and _FROM_SNAPSHOT and self.random.random() < 0.3 else None

        def call(catalog: lw.Catalog) -> None:
            table = mix.table(MAIN, catalog)
            if at is None:
                table.create_branch(name, tag)
            else:
                cast("Any", table).create_branch(name, snapshot_id=at)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, name)
            assert done
            now = after[name]
            if at is not None:
                assert (now.snapshots, now.tags) == ({at: main.snapshots[at]}, {})
                used = main.texts[at]["schemaId"]
                assert now.schemas == {i: columns for i, columns in main.schemas.items() if i <= used}
                return
            if tag is None:
                assert (now.snapshots, now.tags, now.schemas) == ({}, {}, main.schemas)
                return
            number, key = main.tags[tag]
            assert (now.snapshots, now.tags) == ({number: key}, {tag: main.tags[tag]})
            used = main.tag_texts[tag]["schemaId"]
            assert now.schemas == {i: columns for i, columns in main.schemas.items() if i <= used}

        finish = accepting(call, BranchAlreadyExistException)
        return Attempt(f"{name} of {tag if at is None else at}", call, judge, finish)

    def _some_branch(self) -> str | None:
        others = [name for name in self.mix.lines if name != MAIN]
        return self.random.choice(others) if others else None

    def drop_branch(self) -> Attempt | None:
        if (name := self._some_branch()) is None:
            return None

        def call(catalog: lw.Catalog) -> None:
            self.mix.table(MAIN, catalog).drop_branch(name)

        def judge(after: Lines, done: bool) -> None:
            self.mix.judge_others(after, name)
            assert done
            assert name not in after

        return Attempt(name, call, judge, accepting(call))

    def rename_branch(self) -> Attempt | None:
        if (old := self._some_branch()) is None:
            return None
        mix, new, before = self.mix, f"b{next(self.names)}", self._line(old)

        def call(catalog: lw.Catalog) -> None:
            mix.table(MAIN, catalog).rename_branch(old, new)

        def finish(catalog: lw.Catalog) -> None:
            try:
                accepting(call)(catalog)
            except (BranchAlreadyExistException, InvalidInputError):  # it has both names
                accepting(lambda c: mix.table(MAIN, c).drop_branch(old))(catalog)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, old, new)
            assert done
            assert old not in after
            assert after[new] == before

        return Attempt(f"{old} becomes {new}", call, judge, finish)

    def fast_forward(self) -> Attempt | None:
        name = self._some_branch()
        if name is None or not (source := self._line(name)).snapshots:
            return None
        mix, main = self.mix, self._line(MAIN)
        first = min(source.snapshots)
        below = any(number < first for number in main.snapshots)
        if below and main.snapshots.get(first) != source.snapshots[first]:
            return None  # what would stay of the table's own history is not that of the branch
        kept = {number: key for number, key in main.snapshots.items() if number < first}
        tags = {tag: at for tag, at in main.tags.items() if at[0] < first}

        def call(catalog: lw.Catalog) -> None:
            mix.table(MAIN, catalog).fast_forward(name, allow_loss=True)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, MAIN)
            assert done
            now = after[MAIN]
            assert now.snapshots == kept | dict(source.snapshots)
            assert now.tags == tags | dict(source.tags)
            assert now.schemas == source.schemas

        return Attempt(f"to {name}", call, judge, call)

    # Going back.

    def rollback(self) -> Attempt | None:
        branch, mix = self._branch(), self.mix
        line = self._line(branch)
        tags = {name: at for name, at in line.tags.items() if mix.states[at[1]].waiting is None}
        if not (ids := self._whole_ids(branch)[-8:]):
            return None
        number = self.random.choice(ids)
        target: int | str = number
        key, what = line.snapshots[number], str(number)
        if tags and self.random.random() < 0.4:
            target = what = self.random.choice(list(tags))
            number, key = tags[target]
        times = [line.texts[i]["timeMillis"] for i in sorted(line.texts)]
        moment: int = line.texts.get(number, {}).get("timeMillis", 0)
        by_time = target == number and times == sorted(set(times)) and self.random.random() < 0.3

        def call(catalog: lw.Catalog) -> None:
            table = mix.table(branch, catalog)
            if by_time:
                table.rollback_to_timestamp(moment)
            else:
                table.rollback_to(target)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, branch)
            assert done
            now = after[branch]
            assert now.snapshots == {i: old for i, old in line.snapshots.items() if i < number} | {number: key}
            assert now.tags == {name: at for name, at in line.tags.items() if at[0] <= number}
            assert now.schemas == line.schemas

        return Attempt(f"to {what}{' by time' * by_time} on {branch}", call, judge, call)

    def restore(self) -> Attempt | None:
        branch = self._branch()
        ids = self._whole_ids(branch)
        again = getattr(lw.FileStoreTable, "rollback_to_as_latest", None)
        if not ids or again is None:
            return None
        number = self.random.choice(ids)
        state: State = self.mix.states[self._line(branch).snapshots[number]]
        return self._commit(
            f"to {number}",
            branch,
            lambda table: again(table, number),
            state.rows,
            kept=True,
        )

    # The rest.

    def _nothing(self, what: str, call: Callable[[lw.Catalog], object], *, kept: bool = True) -> Attempt:
        """Return an attempt after which every branch is as it was."""
        mix = self.mix

        def judge(after: Lines, done: bool) -> None:  # noqa: ARG001
            assert not kept or after == mix.lines

        return Attempt(what, call, judge)

    def orphans(self) -> Attempt:
        time.sleep(0.002)  # a file of this millisecond is not older than now
        now = int(time.time() * 1000)
        return self._nothing("remove", lambda c: self.mix.table(MAIN, c).remove_orphan_files(older_than=now))

    def consumer(self) -> Attempt | None:
        branch, mix, name = self._branch(), self.mix, f"c{self.random.randint(1, 2)}"
        line = self._line(branch)
        if not line.snapshots:
            return None
        ids = [*line.snapshots, line.newest + 1]  # most go away again: they keep snapshots from expiring
        number = self.random.choice(ids) if self.random.random() < 0.4 else None

        def call(catalog: lw.Catalog) -> None:
            consumers = mix.table(branch, catalog).store.consumers
            if number is None:
                consumers.delete(name)
            else:
                consumers.record(name, number)

        def judge(after: Lines, done: bool) -> None:
            mix.judge_others(after, branch)
            now = after[branch]
            assert (now.snapshots, now.tags, now.schemas) == (line.snapshots, line.tags, line.schemas)
            wanted = {key: at for key, at in line.consumers.items() if key != name}
            wanted |= {} if number is None else {name: number}
            assert now.consumers == wanted or (not done and now.consumers == line.consumers)

        return Attempt(f"{name} at {number} on {branch}", call, judge)

    def repair(self) -> Attempt:
        mix, memory = self.mix, self.mix.memory
        hints = [f"{mix.root}/snapshot/{name}" for name in ("LATEST", "EARLIEST")]
        damage = self.random.choice([b"", b"99999", None])
        for path in hints:
            if damage is None:
                memory.delete(path)
            elif mix.lines[MAIN].snapshots:
                memory.replace(path, damage)
        return self._nothing(f"hints that say {damage!r}", lambda catalog: mix.table(MAIN, catalog).repair())

    def mark_done(self) -> Attempt | None:
        rows = self._rows(MAIN)
        if not self.mix.partition_keys or not rows.height:
            return None
        spec = {"p": self.random.choice(rows["p"].to_list())}
        return self._nothing(str(spec), lambda catalog: self.mix.table(MAIN, catalog).mark_partition_done(spec))

    def purge(self) -> Attempt | None:
        mix, main = self.mix, self._line(MAIN)
        if not main.snapshots:
            return None

        def call(catalog: lw.Catalog) -> None:
            mix.table(MAIN, catalog).purge_files()

        def judge(after: Lines, done: bool) -> None:
            assert done
            assert set(after) == {MAIN}
            now = after[MAIN]
            assert (now.tags, now.consumers, now.schemas) == ({}, {}, main.schemas)
            assert len(now.snapshots) == 1
            mix.states[now.snapshots[now.newest]] = State(self._rows(MAIN).clear(), now.columns)

        return Attempt("purge", call, judge, call)
