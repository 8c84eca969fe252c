"""Ranges, timestamps, durations and the other small values that programs import."""

import random
import sys
from datetime import datetime, timedelta

from pypaimon.api.api_response import GetTagResponse, Partition
from pypaimon.branch.branch_manager import BranchManager
from pypaimon.common import time_utils
from pypaimon.common.options.core_options import CoreOptions
from pypaimon.data.timestamp import Timestamp
from pypaimon.filesystem.local_file_io import LocalFileIO
from pypaimon.manifest.schema.simple_stats import SimpleStats
from pypaimon.read.table_read import ROW_KIND_COLUMN
from pypaimon.utils.range import Range
from pypaimon.write.commit_message_serializer import VERSION
from pypaimon.write.write_builder import BatchWriteBuilder, StreamWriteBuilder, WriteBuilder

chosen = random.Random(7)


def some():
    starts = sorted(chosen.sample(range(60), chosen.randint(0, 5)))
    return [Range(start, start + chosen.randint(0, 9)) for start in starts]


for _ in range(40):
    one, two, whole = some(), some(), Range(10, 40)
    chosen.shuffle(one)
    print(whole.exclude(one), Range.sort_and_merge_overlap(one), Range.sort_and_merge_overlap(one, True, False))
    print(Range.sort_and_merge_overlap(one, False), Range.merge_sorted_as_possible(two), [whole.overlaps(r) for r in one])
    apart = Range.sort_and_merge_overlap(one), Range.sort_and_merge_overlap(two)
    print(Range.and_(*apart), Range.to_ranges([chosen.randint(0, 12) for _ in range(6)]))
print(Range.intersect(1, 3, 3, 4), Range.intersect(1, 3, 4, 4), Range(1, 3).count(), str(Range(1, 2)), {Range(1, 2): 1})

moments = [datetime(2024, 2, 29, 1, 2, 3, 4567), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2000, 1, 1)]
for moment in moments:
    stamp = Timestamp.from_local_date_time(moment)
    print(repr(stamp), stamp, stamp.get_millisecond(), stamp.get_nano_of_millisecond(), stamp.to_micros())
    print(stamp.to_local_date_time() == moment, stamp.to_millis_timestamp(), Timestamp.from_micros(stamp.to_micros()) == stamp)
    print(time_utils.local_datetime_to_json_array(moment), time_utils.local_datetime_to_millis(moment))
    print(time_utils.json_array_to_local_datetime(time_utils.local_datetime_to_json_array(moment)))
    print(time_utils.local_datetime_to_system_zone_millis(moment))
print(Timestamp(1, 2) < Timestamp(1, 3), Timestamp(2) >= Timestamp(1, 9), Timestamp(5) == 5, Timestamp.MILLIS_PER_DAY)
print(isinstance(Timestamp.now(), Timestamp), Timestamp.from_epoch_millis(5, 6))
for nanos in (-1, 1_000_000):
    try:
        Timestamp(0, nanos)
    except ValueError as error:
        print(error)

for text in ("1ns", "500 micro", "2 ms", "7", "1 min", "3 h", "1 d"):
    print(text, time_utils.parse_duration_nanos(text))
for wrong in ("", "x", "1 fortnight"):
    try:
        time_utils.parse_duration_nanos(wrong)
    except ValueError:
        print("no duration:", repr(wrong))
for duration in (timedelta(days=1), timedelta(seconds=61.5), timedelta(0)):
    print(time_utils.duration_to_iso8601(duration), time_utils.duration_to_json_seconds(duration))
    print(time_utils.json_seconds_to_duration(duration.total_seconds()) == duration)

print(GetTagResponse.FIELD_TAG_NAME, GetTagResponse.FIELD_SNAPSHOT, Partition.FIELD_DONE, Partition.FIELD_OPTIONS)
made = Partition.create({"dt": "x"}, 1, 2, 3, 4, 5)
print(made.spec, made.record_count, made.file_count, made.file_size_in_bytes, made.last_file_creation_time, made.done)
print(Partition.create().last_file_creation_time > 0, SimpleStats.empty_stats().null_counts)
print(ROW_KIND_COLUMN, VERSION, sorted(CoreOptions.IMMUTABLE_OPTIONS), CoreOptions.MERGE_MAP_TS_FIELD)
print(CoreOptions.from_dict({"fields.m.ts-field": "at"}).field_merge_map_ts_field("m"))
print(issubclass(BatchWriteBuilder, WriteBuilder), issubclass(StreamWriteBuilder, WriteBuilder))
print(LocalFileIO.create().exists(sys.argv[1]))
for call in (BranchManager().branches, lambda: BranchManager().branch_exists("b"), lambda: BranchManager().drop_branch("b")):
    try:
        call()
    except NotImplementedError as error:
        print(error)
