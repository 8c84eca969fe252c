"""Which options may change and when; refused and unknown keys; secrets in texts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import get_args

from lakewright.errors import InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spec.argument_checks import IncrementalMode
from lakewright.spec.file_formats import FORMAT_RULES
from lakewright.spec.option_table import (
    _SPELLED,
    DECLARATIONS,
    FIELD_OPTION,
    OPENING,
    REFUSED,
    TABLE_DEFAULT,
    Handling,
    OptionRule,
    OptionScope,
    is_of_storage,
    rule_of,
)
from lakewright.spec.option_values import ChangelogProducer, ConfigOption, Mutability
from lakewright.spec.table_options import TableOptions

# ---- Unknown and refused keys ----------------------------------------------------------------------------------------
# A key is honoured, harmless, refused when written or read, or warned about, so that no option is ignored in silence;
# a key that is not here gets a warning with the nearest one that is. `docs/options.md` is made of this table.

# Options whose values are not shown, as a regular expression that Python and Java read alike.
SECRET_KEYS = "(?i)secret|password|token|access[.-]?key|account[._-]key|sas[._-]"  # noqa: S105
_USER_OF_URI = re.compile(r"(?<=://)[^/@\s]*(?=@)")


def redact_secret(key: str, value: str) -> str:
    """Return the value of an option as it may be shown: secrets, and users of a URI, are replaced by stars.

    >>> redact_secret("s3.secret-key", "abc"), redact_secret("uri", "jdbc:mysql://me:pw@host/db")
    ('***', 'jdbc:mysql://***@host/db')
    """
    return "***" if re.search(SECRET_KEYS, key) else _USER_OF_URI.sub("***", value)


_SAID_MAX = 1 << 14
_said: set[tuple[str, str]] = set()  # the places and keys that this process has warned about


def check_not_refused(key: str, value: str) -> None:
    """Raise UnsupportedError for an option that a read or a write would have to ignore.

    >>> check_not_refused("query-auth.enabled", "false")
    >>> check_not_refused("scan.bounded.watermark", "3")
    Traceback (most recent call last):
    lakewright.errors.UnsupportedError: the option 'scan.bounded.watermark' = '3' is not supported: a stream has no \
end here: stop it when its rows are late enough
    """
    rule = REFUSED.get(key)
    if rule is not None and not rule.asks_nothing(value):
        raise UnsupportedError(
            f"the option {key!r} = {value!r} is not supported: {rule.reason}", option=key, value=value
        )


def warn_unknown_options(name: str, place: str, keys: Iterable[str]) -> None:
    """Warn of unknown keys, once per process and place, with the nearest key that is known."""
    for key in keys:
        if rule_of(key) is None and not is_of_storage(key) and first_time(place, key):
            _warn(f"{name}: unknown option {key!r}, which has no effect; {nearest(key)}")


def nearest(key: str, settings: Iterable[str] = ()) -> str:
    """Return the end of a message about an unknown key; `settings` are known keys beside those of tables and catalogs.

    >>> nearest("snapshot.time-retaned"), nearest("?")
    ("did you mean 'snapshot.time-retained'?", 'docs/options.md lists the known ones')
    """
    spellings = {**_SPELLED, **{key.lower(): key for key in settings}}
    close = get_close_matches(key[:200].lower(), spellings, n=1, cutoff=0.75)
    return f"did you mean {spellings[close[0]]!r}?" if close else "docs/options.md lists the known ones"


def check_catalog_options(place: str, options: Mapping[str, str], settings: Collection[str]) -> None:
    """Raise UnsupportedError for options that a catalog of this kind cannot ignore; warn of those that do nothing.

    `settings` are the keys that some storage takes, in lower case.
    """
    metastore = options.get("metastore", "filesystem").strip().lower()
    own = {key: value for key, value in options.items() if not key.startswith(TABLE_DEFAULT)}  # others are for tables
    warn_unknown_options(f"catalog at {place}", place, own)
    for key in own:
        if is_of_storage(key) and rule_of(key) is None and key.lower() not in settings and first_time(place, key):
            _warn(f"catalog at {place}: unknown storage option {key!r}, which has no effect; {nearest(key, settings)}")
    for key, value in own.items():
        rule = rule_of(key)
        if rule is None:
            continue
        if rule.scope is OptionScope.CATALOG:
            check_not_refused(key, value)
            if rule.is_idle_in(metastore) and not rule.asks_nothing(value) and first_time(place, key):
                _warn(f"catalog at {place}: the option {key!r} does nothing: {_why_idle(rule, metastore)}")
        elif rule.handling is not Handling.HARMLESS and key not in OPENING and first_time(place, key):
            _warn(
                f"catalog at {place}: {key!r} is an option of tables, which a catalog does not pass on: give it as "
                f"'{TABLE_DEFAULT}{key}' for new tables, or to table.copy"
            )


def _why_idle(rule: OptionRule, metastore: str) -> str:
    if rule.reason:
        return rule.reason
    kinds = " or ".join(f"metastore={kind}" for kind in sorted(rule.metastores))
    return f"it is for catalogs with {kinds}, and the metastore here is {metastore!r}"


def first_time(place: str, key: str) -> bool:
    """Return whether this process asks for the first time about a key at a place, and remember it."""
    if (place, key) in _said:
        return False
    if len(_said) >= _SAID_MAX:  # a process that opens very many tables says a few things again
        _said.clear()
    _said.add((place, key))
    return True


def _warn(text: str) -> None:
    warnings.warn(text, LakewrightWarning, stacklevel=4)


# ---- Changes of options ----------------------------------------------------------------------------------------------
# Existing files were written with the options of their time. An option that decides where rows lie or how they merge
# is therefore fixed as soon as there is a snapshot.

_NEVER = {
    TableOptions.path.key(): "a table's place is not an option",
    TableOptions.type.key(): "create another table",
    TableOptions.primary_key.key(): "create another table, or drop the primary key of an empty one",
    TableOptions.partition.key(): "create another table",
}

# Options whose value lists columns, and those whose key names some.
_NAME_LISTS = frozenset(
    {"bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", "clustering.columns"}
    | {"partial-update.remove-record-on-sequence-group", "changelog-producer.row-deduplicate-ignore-fields"}
)
_VALUE_LISTS_COLUMNS = re.compile(r"fields\..+\.sequence-group|file-index\.[^.]+\.columns")
CODECS = {name: rules.codecs for name, rules in FORMAT_RULES.items()}
_ANY_CODEC = tuple(dict.fromkeys(codec for codecs in CODECS.values() for codec in codecs))
_ZSTD_LEVEL_MAX = 22
_WORDS: dict[str, tuple[str, ...]] = {
    TableOptions.file_format.key(): tuple(CODECS),
    TableOptions.changelog_file_format.key(): tuple(CODECS),
    TableOptions.file_compression.key(): _ANY_CODEC,
    TableOptions.changelog_file_compression.key(): _ANY_CODEC,
    TableOptions.manifest_compression.key(): CODECS["avro"],
    TableOptions.bucket_function_type.key(): ("default", "mod", "hive"),
    TableOptions.lookup_compact.key(): ("radical", "gentle"),
    TableOptions.incremental_between_scan_mode.key(): get_args(IncrementalMode),
}
_LEVEL_OPTIONS = (TableOptions.file_format_per_level, TableOptions.file_compression_per_level)
_PER_LEVEL = {
    TableOptions.file_format_per_level.key(): tuple(CODECS),
    TableOptions.file_compression_per_level.key(): _ANY_CODEC,
}
_CODEC_OPTIONS = {
    TableOptions.file_format.key(),
    TableOptions.file_compression.key(),
    TableOptions.changelog_file_format.key(),
    TableOptions.changelog_file_compression.key(),
    *_PER_LEVEL,
}
_LISTS = _NAME_LISTS | {
    TableOptions.primary_key.key(),
    TableOptions.partition.key(),
    TableOptions.data_file_external_paths.key(),
    TableOptions.data_file_external_paths_weights.key(),
}
_NAMES_PARTS = frozenset({"nested-key", "nested-sequence-field", "ts-field"})  # fields of the rows inside a column
_INDEX_OPTION = re.compile(r"(?P<index>file-index\.[^.]+)\.(?P<column>.+)\.(?P<what>[^.]+)")


def check_new_value(options: Mapping[str, str], key: str, value: str) -> None:
    """Raise an error for a value that an option cannot have, when it is set; stored options are not checked here.

    `options` are those of the table, with this one. InvalidInputError is about the value, UnsupportedError about an
    option that lakewright could only ignore.

    >>> check_new_value({}, "file.format", "parqet")
    Traceback (most recent call last):
    lakewright.errors.InvalidInputError: the option 'file.format' cannot be 'parqet': it takes parquet, orc, avro, lance
    """
    check_not_refused(key, value)
    words = _WORDS.get(key, ())
    given = {value.strip().lower()} if words else set()
    if key in _PER_LEVEL:
        words, levels = _PER_LEVEL[key], TableOptions({key: value}).get(_level_option(key))
        given = set(levels.values())
        if not levels or any(not part.strip() for part in value.split(",")) or min(levels) < 0:
            raise _refusal(key, f"cannot be {value!r}", "it takes a list such as 0:avro,5:parquet without blank items")
    if words and not given <= set(words):
        raise _refusal(key, f"cannot be {value!r}", f"it takes {', '.join(words)}")
    match = FIELD_OPTION.fullmatch(key)
    listing = key in _LISTS or _VALUE_LISTS_COLUMNS.fullmatch(key) or (match and match["what"] in _NAMES_PARTS)
    if listing and any(not name.strip() for name in value.split(",")):
        raise _refusal(key, f"cannot be {value!r}", "it takes a list with commas, and one of its items is blank")
    if key == TableOptions.file_compression_zstd_level.key() and not 1 <= _number(value) <= _ZSTD_LEVEL_MAX:
        raise _refusal(key, f"cannot be {value!r}", f"it takes a whole number from 1 to {_ZSTD_LEVEL_MAX}")
    if key in _CODEC_OPTIONS:
        _check_codec(TableOptions(options))


def _check_codec(options: TableOptions) -> None:
    """Raise InvalidInputError for a compression that files of the table's format cannot have, on any level."""
    formats = options.file_format_per_level
    codecs = options.file_compression_per_level
    for level in (-1, *formats, *codecs):
        file_format = formats.get(level, options.file_format)
        codec, known = codecs.get(level, options.file_compression), CODECS.get(file_format, ())
        if known and codec not in known:
            raise _refusal("file.compression", f"cannot be {codec!r}", f"{file_format} files take {', '.join(known)}")
    file_format = options.changelog_file_format or options.file_format
    changelog_codec, known = options.changelog_file_compression, CODECS.get(file_format, ())
    if changelog_codec is not None and known and changelog_codec not in known:
        key = TableOptions.changelog_file_compression.key()
        raise _refusal(key, f"cannot be {changelog_codec!r}", f"{file_format} files take {', '.join(known)}")


def _number(value: str) -> int:
    return TableOptions.file_compression_zstd_level.parse(value)


def _level_option(key: str) -> ConfigOption[Mapping[int, str]]:
    return next(option for option in _LEVEL_OPTIONS if option.key() == key)


def check_option_change(options: Mapping[str, str], key: str, value: str | None, *, has_snapshot: bool) -> None:
    """Raise InvalidInputError if an option cannot get a value (None: be removed) at this stage of the table.

    >>> check_option_change({"bucket": "2"}, "bucket", "3", has_snapshot=True)
    """
    if key in _NEVER:
        raise _refusal(key, "cannot be set or removed", _NEVER[key])
    after = {name: text for name, text in options.items() if name != key}
    if value is not None:
        after[key] = value
        check_new_value(after, key, value)
    option = DECLARATIONS.get(key)
    if option is None:
        return
    old, new = TableOptions(options).get(option), TableOptions(after).get(option)
    if not has_snapshot or old == new:
        return
    if option.mutability is Mutability.BEFORE_DATA:
        raise _refusal(key, f"cannot change from {old!r} to {new!r}", "the table has data written under it")
    if option is TableOptions.bucket and min(TableOptions(options).bucket, TableOptions(after).bucket) < 0:
        raise _refusal(key, f"cannot change from {old} to {new}", "only one fixed number can become another")
    if option is TableOptions.deletion_vectors_enabled and not TableOptions(after).deletion_vectors_modifiable:
        raise _refusal(key, f"cannot change from {old} to {new}", "set 'deletion-vectors.modifiable' to true first")
    if option is TableOptions.changelog_producer and _decides_sums(options, old, new):
        raise _refusal(
            key, f"cannot change from {old} to {new}", "levels that were merged by one rule would be read by another"
        )
    if option.mutability is Mutability.TURN_ON and not new:
        raise _refusal(key, "cannot be turned off", "the rows it dropped are gone")


def _decides_sums(options: Mapping[str, str], *producers: object) -> bool:
    """Return whether a change of the changelog producer changes which levels of a key are merged."""
    return ChangelogProducer.LOOKUP in producers and not TableOptions(options).merge_engine.traits.keeps_one_row


def renamed_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Return the options of a table after one of its columns got another name.

    >>> renamed_in_options({"bucket-key": "a,b", "fields.a.stats-mode": "none"}, "a", "z")
    {'bucket-key': 'z,b', 'fields.z.stats-mode': 'none'}
    """
    return {_renamed_key(key, old, new): _renamed_value(key, text, old, new) for key, text in options.items()}


def part_renamed_in_options(options: Mapping[str, str], column: str, old: str, new: str) -> dict[str, str]:
    """Return the options of a table after a field of the rows inside one of its columns got another name.

    >>> part_renamed_in_options({"fields.r.nested-key": "id,day"}, "r", "id", "number")
    {'fields.r.nested-key': 'number,day'}
    """
    return {
        key: _renamed_list(text, old, new) if _names_parts_of(key, column) else text for key, text in options.items()
    }


def options_naming(options: Mapping[str, str], column: str) -> list[str]:
    """Return the keys of the options that name a column, in their key or their value.

    >>> options_naming({"sequence.field": "a,b", "fields.b.stats-mode": "none", "bucket": "2"}, "b")
    ['sequence.field', 'fields.b.stats-mode']
    """
    marked = f"{column}\0"  # no column has such a name
    return [
        key
        for key, text in options.items()
        if _renamed_key(key, column, marked) != key or _renamed_value(key, text, column, marked) != text
    ]


def options_naming_part(options: Mapping[str, str], column: str, part: str) -> list[str]:
    """Return the keys of the options that name a field of the rows inside a column."""
    return [key for key, text in options.items() if _names_parts_of(key, column) and part in _split(text)]


def _names_parts_of(key: str, column: str) -> bool:
    match = FIELD_OPTION.fullmatch(key)
    return match is not None and match["what"] in _NAMES_PARTS and match["columns"] == column


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _renamed_key(key: str, old: str, new: str) -> str:
    if match := FIELD_OPTION.fullmatch(key):
        return f"fields.{_renamed_list(match['columns'], old, new)}.{match['what']}"
    if (match := _INDEX_OPTION.fullmatch(key)) and match["column"] == old:
        return f"{match['index']}.{new}.{match['what']}"
    return key


def _renamed_value(key: str, text: str, old: str, new: str) -> str:
    listing = key in _NAME_LISTS or _VALUE_LISTS_COLUMNS.fullmatch(key)
    return _renamed_list(text, old, new) if listing else text


def _renamed_list(text: str, old: str, new: str) -> str:
    return ",".join(new if name.strip() == old else name for name in text.split(","))


def _refusal(key: str, what: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(f"the option {key!r} {what}: {remedy}", option=key)
