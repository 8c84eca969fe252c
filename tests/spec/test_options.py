from __future__ import annotations

import pickle

import pytest

from lakewright.errors import InvalidInputError
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.option_values import MIB, option_text, parse_duration_millis, parse_memory
from lakewright.spec.table_options import KNOWN_OPTIONS, CoreOptions


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("8 mb", 8 * MIB), ("128MB", 128 * MIB), ("1 b", 1), ("2 kibibytes", 2048), (" 3G ", 3 << 30)],
)
def test_sizes_of_memory_are_parsed(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "mb", "-1", "1.5 mb", "1 xb", "1 mb 2", "9999999999 tb"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a size"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 h", 3600000),
        ("10 min", 600000),
        ("500 ms", 500),
        ("7", 7),
        ("2d", 172800000),
        ("1500 us", 1),
        ("PT1H", 3600000),
        ("pt1h30m", 5400000),
        ("P1DT0.5S", 86400500),
        ("1 m", 60000),
        ("3 seconds", 3000),
    ],
)
def test_durations_are_parsed(text: str, millis: int) -> None:
    assert parse_duration_millis(text) == millis


@pytest.mark.parametrize("text", ["", "h", "1.5 h", "-1 s", "1 fortnight", "P", "PT", "1 h 3 min"])
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a duration"):
        parse_duration_millis(text)


def test_constants_are_named_after_their_keys_and_every_default_is_of_its_kind() -> None:
    for name, option in vars(CoreOptions).items():
        if option in KNOWN_OPTIONS:
            assert name == option.key().upper().replace("-", "_").replace(".", "_")
            default = option.default_value()
            if isinstance(default, str | int | float):
                assert option.parse(option_text(option.key(), default)) == default
    assert len({option.key() for option in KNOWN_OPTIONS}) == len(KNOWN_OPTIONS) > 100


def test_get_prefers_the_value_then_the_given_default_then_its_own() -> None:
    options = CoreOptions.from_dict({"bucket": 3})
    assert options.bucket(9) == 3
    assert CoreOptions().bucket(9) == 9
    assert CoreOptions().bucket() == -1
    assert CoreOptions().merge_engine() is MergeEngine.DEDUPLICATE
    assert CoreOptions().deletion_vectors_enabled(default=True) is True


def test_old_keys_still_count_and_new_ones_win() -> None:
    assert CoreOptions({"write.compaction-skip": "true"}).get(CoreOptions.WRITE_ONLY)
    assert CoreOptions({"partial-update.ignore-delete": "TRUE"}).get(CoreOptions.IGNORE_DELETE)
    both = {"first-row.ignore-delete": "true", "ignore-delete": "false"}
    assert not CoreOptions(both).get(CoreOptions.IGNORE_DELETE)


def test_defaults_that_depend_on_the_table_or_on_other_options() -> None:
    options = CoreOptions()
    assert options.target_file_size(has_primary_key=True) == 128 * MIB
    assert options.target_file_size(has_primary_key=False) == 256 * MIB
    assert CoreOptions({"target-file-size": "1 kb"}).target_file_size(has_primary_key=True) == 1024
    more = CoreOptions({"num-sorted-run.compaction-trigger": "7"})
    assert (more.num_levels(), more.num_sorted_runs_stop_trigger()) == (8, 10)


def test_levels_and_names() -> None:
    options = CoreOptions({"file.format.per.level": "0:avro, 5:ORC", "sequence.field": "a, b", "bucket-key": "a, b"})
    assert options.get(CoreOptions.FILE_FORMAT_PER_LEVEL) == {0: "avro", 5: "orc"}
    assert options.get(CoreOptions.SEQUENCE_FIELD) == ("a", "b")
    assert options.bucket_key() == ("a", " b")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "0"),
        ("bucket", "-3"),
        ("bucket", "1_0"),
        ("bucket", "2147483648"),
        ("bucket", "four"),
        ("merge-engine", "newest"),
        ("write-only", "yes"),
        ("target-file-size", "big"),
        ("commit.timeout", "soon"),
        ("file.format.per.level", "avro"),
        ("metadata.stats-mode", "truncate(0)"),
        ("file.format", " "),
        ("compaction.small-file-ratio", "2"),
        ("manifest.merge-min-count", "0"),
    ],
)
def test_bad_values_name_the_key_the_value_and_what_is_allowed(key: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match="it takes") as caught:
        CoreOptions({key: value}).check()
    assert (caught.value.option, caught.value.value) == (key, value)
    assert repr(key) in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_bad_value_hurts_only_those_who_ask_for_it() -> None:
    assert CoreOptions({"commit.timeout": "soon", "bucket": "2"}).bucket() == 2


def test_values_of_python_become_text_and_others_are_refused() -> None:
    values = CoreOptions.from_dict({"a": True, "b": 1, "c": MergeEngine.FIRST_ROW, "d": "x"}).to_map()
    assert values == {"a": "true", "b": "1", "c": "first-row", "d": "x"}
    with pytest.raises(InvalidInputError, match="'e'"):
        CoreOptions.from_dict({"e": None})


def test_options_survive_pickling() -> None:
    options = CoreOptions({"bucket": "2"})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
