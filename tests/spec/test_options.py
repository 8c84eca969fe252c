from __future__ import annotations

import pickle
from unittest.mock import patch

import pytest

from lakewright.errors import InvalidInputError
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.option_values import MIB, ConfigOption, option_text, parse_duration_millis, parse_memory
from lakewright.spec.table_options import KNOWN_OPTIONS, CoreOptions, TableOptions


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


def test_attributes_are_named_after_their_keys_and_every_default_is_of_its_kind() -> None:
    for name, option in vars(TableOptions).items():
        if isinstance(option, ConfigOption):
            assert name == option.key().replace("-", "_").replace(".", "_")
            assert getattr(CoreOptions, name.upper()) is option
            default = option.default_value()
            assert getattr(TableOptions(), name) == default
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
    assert TableOptions({"write.compaction-skip": "true"}).write_only
    assert TableOptions({"partial-update.ignore-delete": "TRUE"}).ignore_delete
    assert not TableOptions({"first-row.ignore-delete": "true", "ignore-delete": "false"}).ignore_delete


def test_defaults_that_depend_on_the_table_or_on_other_options() -> None:
    options = TableOptions()
    assert options.data_file_size(has_primary_key=True) == 128 * MIB
    assert options.data_file_size(has_primary_key=False) == 256 * MIB
    assert TableOptions({"target-file-size": "1 kb"}).data_file_size(has_primary_key=True) == 1024
    assert TableOptions({"num-sorted-run.compaction-trigger": "7"}).level_count == 8


def test_levels_and_names() -> None:
    options = TableOptions({"file.format.per.level": "0:avro, 5:ORC", "sequence.field": "a, b", "bucket-key": "a, b"})
    assert options.file_format_per_level == {0: "avro", 5: "orc"}
    assert options.sequence_field == ("a", "b")
    assert options.bucket_key == ("a", " b")


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
        TableOptions({key: value}).check()
    assert (caught.value.option, caught.value.value) == (key, value)
    assert repr(key) in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_bad_value_hurts_only_those_who_ask_for_it() -> None:
    options = TableOptions({"commit.timeout": "soon", "merge-engine": "newest", "bucket": "2"})
    assert options.bucket == 2
    for read in (lambda: options.commit_timeout, lambda: options.merge_engine, lambda: options.needs_lookup):
        with pytest.raises(InvalidInputError, match="it takes"):
            read()


def test_values_are_parsed_once_and_not_changed() -> None:
    options = TableOptions({"bucket": "2", "merge-engine": "first-row"})
    with patch.object(ConfigOption, "parse", side_effect=AssertionError):
        assert (options.bucket, options.write_buffer_size, options.hides_level_0) == (2, 256 * MIB, True)
    with pytest.raises(AttributeError, match="'bucket'"):
        options.bucket = 3


def test_values_of_python_become_text_and_others_are_refused() -> None:
    values = CoreOptions.from_dict({"a": True, "b": 1, "c": MergeEngine.FIRST_ROW, "d": "x"}).to_map()
    assert values == {"a": "true", "b": "1", "c": "first-row", "d": "x"}
    with pytest.raises(InvalidInputError, match="'e'"):
        CoreOptions.from_dict({"e": None})


def test_options_survive_pickling() -> None:
    for options in (CoreOptions({"bucket": "2"}), TableOptions({"bucket": "2"})):
        assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
