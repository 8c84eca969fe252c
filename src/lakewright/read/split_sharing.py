"""Splits cut smaller and spread over tasks."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeAlias

import pyarrow as pa

from lakewright.lsm.key_order import Key, KeyOrder
from lakewright.lsm.sorted_runs import sections
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader, explain_missing_files
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.split_planning import Packing
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import DataFile, is_side_file
from lakewright.spec.predicate import TRUE, Predicate, project_columns, simplify
from lakewright.storage.concurrency import map_concurrently

# ---- Shares for tasks ------------------------------------------------------------------------------------------------
# Invariant: every row of the plan is in exactly one share; files that hold versions of one key, or columns of
# one row, stay together; the events of a stream stay in order. Nothing here opens a file.

Share: TypeAlias = tuple[DataSplit, ...]


def cut_split(store: TableStore, split: DataSplit) -> list[DataSplit]:
    """Cut a split into parts that can be read apart: files, or sections of files that share keys."""
    if split.before is not None or split.streaming or split.branch is not None:
        return [split]  # another branch may have another key than the table
    if not split.needs_merge:
        return [part_of(split, group) for group in split.row_groups()]
    number_of = {file: at for at, file in enumerate(split.files)}
    types = [field.type for field in store.schema.trimmed_primary_key_fields]
    return [part_of(split, [number_of[file] for file in part.files]) for part in sections(split.files, types)]


def part_of(split: DataSplit, numbers: Sequence[int]) -> DataSplit:
    """Return a split with some of its files alone."""
    return replace(
        split,
        files=tuple(split.files[at] for at in numbers),
        file_paths=tuple(split.file_paths[at] for at in numbers),
        deletion_files=tuple(split.deletion_files[at] for at in numbers) if split.deletion_files else (),
        row_ranges=tuple(split.row_ranges[at] for at in numbers) if split.row_ranges else (),
    )


def share_splits(
    store: TableStore, splits: Sequence[DataSplit], *, at_least: int, exactly: int | None = None
) -> list[Share]:
    """Spread splits over tasks: as many as their bytes ask for, where they can be cut so far, or as many as are wanted.

    The largest pieces are placed first, each where the least is; a share keeps the order of the plan.
    """
    parts = [(part,) for split in splits for part in cut_split(store, split)]
    return _spread(store, parts, at_least, exactly)


def bucket_shares(store: TableStore, splits: Sequence[DataSplit], *, at_least: int) -> list[Share]:
    """Spread splits over tasks as `share_splits` does, but those of one bucket to one task."""
    buckets: dict[tuple[bytes, int], list[DataSplit]] = {}
    for split in splits:
        buckets.setdefault((split.partition_bytes, split.bucket), []).append(split)
    return _spread(store, [tuple(some) for some in buckets.values()], at_least, None)


def stretches(sizes: Sequence[int], count: int) -> list[range]:
    """Cut a row of pieces into `count` stretches of neighbours whose largest is as small as it can be.

    No stretch is empty while there are pieces for it.

    >>> stretches([10, 11], 2), stretches([10, 1, 1], 3), stretches([1, 1], 3)
    ([range(0, 1), range(1, 2)], [range(0, 1), range(1, 2), range(2, 3)], [range(0, 1), range(1, 2), range(2, 2)])
    """
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        limit = (low + high) // 2
        low, high = (low, limit) if len(_ends(sizes, count, limit)) <= count else (limit + 1, high)
    ends = _ends(sizes, count, high)
    ends += [len(sizes)] * (count - len(ends))
    return [range(start, end) for start, end in pairwise([0, *ends])]


def _ends(sizes: Sequence[int], count: int, limit: int) -> list[int]:
    """Return where stretches end that are as long as a limit allows, or shorter so that none of the others is empty."""
    ends: list[int] = []
    held = 0
    for at, size in enumerate(sizes):
        if at and (held + size > limit or len(sizes) - at < count - len(ends)) and held:
            ends.append(at)
            held = 0
        held += size
    return [*ends, len(sizes)] if sizes else ends


def _spread(store: TableStore, parts: Sequence[Share], at_least: int, exactly: int | None) -> list[Share]:
    packing = Packing.of(store.options)
    weights = [sum(_packed_weight(split, packing) for split in part) for part in parts]
    tasks = max(at_least, -(-sum(weights) // packing.target_bytes)) if exactly is None else exactly
    return [tuple(split for at in some for split in parts[at]) for some in sorted(spread(weights, tasks))]


def _packed_weight(split: DataSplit, packing: Packing) -> int:
    """Return what a split weighs among others; of files that are read in part only that part counts."""
    weight, rows = packing.weight(split.files), sum(file.row_count for file in split.files)
    kept = sum(file.row_count if some is None else some[1] - some[0]
               for file, some in zip(split.files, split.row_ranges, strict=False))  # fmt: skip
    return weight * kept // max(rows, 1) if split.row_ranges else weight


def spread(weights: Sequence[int], count: int) -> list[list[int]]:
    """Spread things over so many groups, or one for each: the heaviest first, each to the group that weighs least.

    The groups hold the numbers of the things in order; the heaviest group comes first.

    >>> spread([1, 5, 2, 2], 2)
    [[1], [0, 2, 3]]
    """
    count = max(1, min(count, len(weights)))
    loads = [(0, number) for number in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    for at in sorted(range(len(weights)), key=lambda at: -weights[at]):
        load, number = heapq.heappop(loads)
        members[number].append(at)
        heapq.heappush(loads, (load + weights[at], number))
    heaviest_first = sorted(loads, key=lambda load: (-load[0], load[1]))
    return [sorted(members[number]) for _, number in heaviest_first if members[number]]


# ---- Cutting splits --------------------------------------------------------------------------------------------------
# A file is cut where its decoding can begin: at a row group, a stripe or a block. Files whose rows are merged are cut
# at keys: a piece holds, of each file, the rows from one key up to another. The keys are those at which decoding of
# the larger files can begin; their positions in all files are searched in the key columns alone.
#
# Invariant: the rows of the pieces, one piece after the other, are the rows of the split in its order. At
# each cut the row before it has a lower key, so a file that is not sorted by its key is still noticed when pieces are
# merged.

PIECE_BYTES_MIN = 8 << 20  # a smaller piece costs more than it gains
_ROW_BYTES = 4  # a row takes time however few bytes it has
_PROBES_MAX = 64  # keys that are looked at in one file to find where to cut


def cut_splits(
    store: TableStore, splits: Sequence[DataSplit], predicate: Predicate, count: int, *, piece_bytes: int = 0
) -> list[DataSplit]:
    """Cut large splits if fewer than `count` can be read concurrently; the rows and their order stay the same.

    The pieces have about equal sizes, `piece_bytes` each if that makes more than `count`. What surely does not fulfil
    the predicate does not count: a read of a few rows is not cut.
    """
    if len(splits) >= count or sum(map(_split_weight, splits)) < 2 * PIECE_BYTES_MIN:
        return list(splits)
    parts = [part for split in splits for part in cut_split(store, split)]
    if len(parts) >= count:
        return list(splits)
    weights = [_split_weight(part) for part in parts]
    total = sum(weights)
    wanted = max(count, total // piece_bytes if piece_bytes else 0)
    counts = [min(-(-wanted * weight // total), weight // PIECE_BYTES_MIN) for weight in weights]
    cutter = _Cutter(store, FileSchemas(store), predicate)
    cut = map_concurrently(store.storage, lambda pair: cutter.cut(*pair), list(zip(parts, counts, strict=True)))
    return [piece for some in cut for piece in some]


def _split_weight(split: DataSplit) -> int:
    """Return about how much work the rows of a split are, in bytes of files."""
    ranges = split.row_ranges or (None,) * len(split.files)
    weight = 0
    for file, rows in zip(split.files, ranges, strict=True):
        if is_side_file(file):
            continue  # not every read needs it
        count = file.row_count if rows is None else rows[1] - rows[0]
        weight += file.file_size * count // max(file.row_count, 1) + _ROW_BYTES * count
    return weight


@dataclass(frozen=True, slots=True)
class _Probes:
    """Some keys of one file: those of the rows at ascending positions, the first of which is 0."""

    file: DataFile
    positions: list[int]
    keys: list[Key]

    def weigh_keys(self) -> Iterable[tuple[Key, int]]:
        """Return the keys, each with the number of rows up to the next."""
        rows = (end - start for start, end in pairwise([*self.positions, self.file.row_count]))
        return zip(self.keys, rows, strict=True)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts parts of splits, each a file, files with columns of the same rows, or files that are merged."""

    store: TableStore
    schemas: FileSchemas
    predicate: Predicate

    def cut(self, part: DataSplit, count: int) -> list[DataSplit]:
        """Return a part as up to `count` pieces in order."""
        is_whole = part.before is None and not part.streaming and part.branch is None
        if count <= 1 or not is_whole or not part.files:
            return [part]
        keys = self.store.schema.partition_keys
        known = dict(zip(keys, self.store.partition_values(part.partition_bytes), strict=True))
        residual = simplify(self.predicate, known)
        with explain_missing_files(self.store, part.snapshot_id):
            if not part.needs_merge:
                return self._cut_rows(part, count, residual)
            # A merge skips to the keys that a filter asks for; searching for keys to cut at would take longer.
            asks_keys = project_columns(residual, self.store.schema.trimmed_primary_keys) != TRUE
            if asks_keys or (part.row_ranges and len(part.files) > 1):
                return [part]
            return self._cut_keys(part, count) if len(part.files) > 1 else self._cut_rows(part, count, TRUE)

    def _files(self, part: DataSplit) -> BucketReader:
        return BucketReader(self.store, self.schemas, part.partition_bytes, part.bucket)

    def _cut_rows(self, part: DataSplit, count: int, residual: Predicate) -> list[DataSplit]:
        """Cut rows that are in one file, or in several files with columns of the same rows."""
        first, last = part.range_of([0])
        normal = [file for file in part.files if not is_side_file(file)]
        largest = max(normal, key=lambda file: file.file_size)
        starts = self._files(part).starts(largest, residual if len(part.files) == 1 else TRUE)
        inside = [start for start in starts if first <= start < last]
        if len(inside) < 2:  # noqa: PLR2004 - one place to begin is no cut
            return [part]
        ends = sorted({inside[len(inside) * number // count] for number in range(1, count)} - {inside[0]})
        return [
            replace(part, row_ranges=((low, high),) * len(part.files)) for low, high in pairwise([first, *ends, last])
        ]

    def _cut_keys(self, part: DataSplit, count: int) -> list[DataSplit]:
        """Cut files that share keys."""
        order = KeyOrder(self.store.schema.trimmed_primary_key_fields)
        files = self._files(part)
        rows = sum(file.row_count for file in part.files)
        look = partial(self._probes, files, order, rows // (2 * count))
        probes = map_concurrently(self.store.storage, look, part.files)
        bounds = _bounds([pair for some in probes for pair in some.weigh_keys()], count)
        ends = map_concurrently(
            self.store.storage, lambda some: [_position(files, some, order, key) for key in bounds], probes
        )
        cuts = [[0, *some, file.row_count] for some, file in zip(ends, part.files, strict=True)]
        if not bounds or any(low > high for some in cuts for low, high in pairwise(some)):
            return [part]  # if a file is not sorted, a merge of all rows says so
        return [
            _between(part, [(some[number], some[number + 1]) for some in cuts]) for number in range(len(bounds) + 1)
        ]

    def _probes(self, files: BucketReader, order: KeyOrder, step: int, file: DataFile) -> _Probes:
        """Return keys of a file with about `step` rows between two of them, where its decoding can begin."""
        lowest = order.key_of(decode_row(file.min_key, [field.type for field in order.fields]))
        if file.row_count <= step:
            return _Probes(file, [0], [lowest])
        starts = files.starts(file)
        wanted = min(_PROBES_MAX, -(-4 * file.row_count // max(step, 1)))
        chosen = _nearest(starts[1:], [file.row_count * number // wanted for number in range(1, wanted)])
        keys = [_key_at(files, file, order, position) for position in chosen]
        return _Probes(file, [0, *chosen], [lowest, *keys])


def _nearest(starts: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the starts that are nearest to some positions, each once.

    >>> _nearest([3, 5, 9], [4, 6, 7, 8])
    [3, 5, 9]
    """
    found = []
    for position in wanted:
        at = bisect_left(starts, position)
        around = starts[max(at - 1, 0) : at + 1]
        found += [min(around, key=lambda start: abs(start - position))] if around else []
    return sorted(set(found))


def _bounds(weighed: Iterable[tuple[Key, int]], count: int) -> list[Key]:
    """Return the keys, of those given with the numbers of rows after them, that cut the rows most evenly.

    >>> _bounds([(((1,),), 5), (((2,),), 5), (((3,),), 9), (((9,),), 1)], 2)
    [((3,),)]
    """
    ordered = sorted(weighed)
    before = [0, *accumulate(rows for _, rows in ordered)]
    found = _nearest(before[1:-1], [before[-1] * number // count for number in range(1, count)])
    return sorted({ordered[bisect_left(before, rows)][0] for rows in found} - {ordered[0][0]})


def _position(files: BucketReader, probes: _Probes, order: KeyOrder, key: Key) -> int:
    """Return how many rows of a file have a key below the given one."""
    at = bisect_left(probes.keys, key)
    if at == 0:
        return 0
    low = probes.positions[at - 1]
    high = probes.positions[at] if at < len(probes.positions) else probes.file.row_count
    batches = [batch for _, batch in files.rows(probes.file, order.fields, within=range(low, high))]
    return low + order.count_below(pa.Table.from_batches(batches), key)


def _key_at(files: BucketReader, file: DataFile, order: KeyOrder, position: int) -> Key:
    with closing(files.rows(file, order.fields, batch_rows=1, within=range(position, position + 1))) as rows:
        _, batch = next(rows)
    return order.key_at(pa.Table.from_batches([batch]), 0)


def _between(part: DataSplit, rows: Sequence[tuple[int, int]]) -> DataSplit:
    """Return a split with some rows of its files, without files of which there are none."""
    kept = [at for at, (low, high) in enumerate(rows) if low < high]
    ranged = replace(part, row_ranges=tuple(rows))
    return part_of(ranged, kept)
