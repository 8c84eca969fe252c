"""The table of option keys is complete, says each key once, and says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakewright.errors import UnsupportedError
from lakewright.spec import option_checks, option_table
from lakewright.spec.option_checks import check_not_refused, nearest
from lakewright.spec.option_table import REFUSED, RULES, Handling, rule_of, spell_key
from lakewright.spec.option_values import ConfigOption, Mutability
from lakewright.spec.table_options import KNOWN_OPTIONS, TableOptions
from support.options_page import KEYS, PAGE, options_page

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "lakewright"
NAMES = {option.key(): name for name, option in vars(TableOptions).items() if isinstance(option, ConfigOption)}
DEFINITIONS = SOURCE / "spec" / "table_options.py"
# These say only what may be set, or which names there are, not what is done about it.
ABOUT_VALUES = {SOURCE / "spec/option_table.py", SOURCE / "spec/option_checks.py", DEFINITIONS}
FILES = [path for path in SOURCE.rglob("*.py") if "pypaimon" not in path.parts and path not in ABOUT_VALUES]
CODE = "\n".join(path.read_text() for path in FILES)
NAMED = set(re.findall(r"\b(?:\w*options|TableOptions)\.(\w+)", CODE))
# The methods and computed attributes of TableOptions, and which options each of them reads.
METHODS = {
    found[1]: set(re.findall(r"\bself\.(\w+)", found[0]))
    for found in re.finditer(r"    def (\w+)\(self.*?(?=\n    def |\n\n\n)", DEFINITIONS.read_text(), re.DOTALL)
}
# Options that are done about in part: the reason of each says which part.
IN_PART: set[str] = set()
# Options that are read as text, because they are not of tables or not of one value.
BY_TEXT = {"metastore", "warehouse", "parquet.enable.dictionary", "variant.shreddingSchema"}
# Options that are about other options.
ABOUT_OPTIONS = {"deletion-vectors.modifiable"}


def is_used(key: str) -> bool:
    """Whether the sources use an option outside its definition."""
    if key in NAMES:
        name = NAMES[key]
        return name in NAMED or any(name in named and method in NAMED for method, named in METHODS.items())
    return key in BY_TEXT and f'"{key}"' in CODE


def test_every_key_of_the_other_implementations_has_a_class() -> None:
    assert len(KEYS) == 395
    assert [key for key in KEYS if key not in RULES] == []


def test_every_option_of_ours_has_a_class() -> None:
    assert [key for key in NAMES if rule_of(key) is None] == []


def test_no_key_has_two_classes() -> None:
    keys = [key for key, _ in option_table._rules()]
    assert sorted(set(keys)) == sorted(keys)


def test_an_honoured_key_is_used_and_a_harmless_one_is_not() -> None:
    # Options of catalogs of one kind have tests beside these catalogs.
    honoured = {key for key, rule in RULES.items() if rule.handling is Handling.HONOURED and not rule.metastores}
    old_names = {
        name for option in vars(TableOptions).values() if isinstance(option, ConfigOption) for name in option.old_names
    }
    assert [key for key in sorted(honoured - old_names - ABOUT_OPTIONS) if not is_used(key)] == []
    harmless = {key for key, rule in RULES.items() if rule.handling is Handling.HARMLESS}
    assert [key for key in sorted(harmless & NAMES.keys() - IN_PART) if is_used(key)] == []


def test_an_option_that_never_changes_says_why() -> None:
    assert {
        option.key() for option in KNOWN_OPTIONS if option.mutability is Mutability.NEVER
    } == option_checks._NEVER.keys()


def test_whatever_is_not_honoured_says_why() -> None:
    reasons = {key: rule.reason for key, rule in RULES.items() if rule.handling is not Handling.HONOURED}
    assert [key for key, reason in reasons.items() if len(reason) <= 20 or reason != reason.strip()] == []


def test_a_refusal_names_the_key_and_the_remedy_and_allows_the_default() -> None:
    for key, rule in REFUSED.items():
        with pytest.raises(UnsupportedError, match=f"the option '{re.escape(key)}' = 'x'") as caught:
            check_not_refused(key, "x")
        assert rule.reason in str(caught.value)
        assert caught.value.facts["option"] == key
        default = KEYS[key]["default"] if key in KEYS else "(none)"
        if default != "(none)":
            check_not_refused(key, default)
            check_not_refused(key, f" {default.upper()} ")


def test_an_unknown_key_is_like_a_known_one() -> None:
    known = {
        "bucket-keys": "bucket-key",
        "snapshot.time.retained": "snapshot.time-retained",
        "target_file_size": "target-file-size",
        "READ.allow.fullscan": "read.allow.fullScan",
    }
    assert [key for key in known if rule_of(key) is not None] == []
    assert {key: nearest(key) for key in known} == {key: f"did you mean {like!r}?" for key, like in known.items()}


def test_a_key_in_lower_case_is_found() -> None:
    assert spell_key("variant.infershreddingschema") == "variant.inferShreddingSchema"
    assert spell_key("my.own") == "my.own"


def test_keys_with_a_part_that_users_choose_are_known() -> None:
    known = """
        fields.price.aggregate-function fields.a,b.sequence-group file-index.bloom-filter.columns parquet.block.size
        parquet.writer.version commit.callback.com.x.Y.param tag.callback.#.param lakewright.write-threads
        write.compaction-skip owner fields.m.map.storage-layout fields.m.map.shared-shredding.max-columns
        metadata.iceberg.rest.uri materialized-table.refresh-mode batch-scan-mode stream-scan-mode
        key-value.sequence_number.enabled
    """
    assert [key for key in known.split() if rule_of(key) is None] == []
    unknown = ("fields.price.nonsense", "lakewright.threads", "scan.snapshot", "x")
    assert [key for key in unknown if rule_of(key) is not None] == []


def test_the_page_of_options_is_that_of_the_table() -> None:
    assert PAGE.read_text() == options_page(), "outdated: run `python -m support.options_page` in tests/"
