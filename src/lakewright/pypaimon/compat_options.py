"""`CoreOptions` and the other classes of options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Any, ClassVar, NamedTuple

from lakewright.errors import InvalidInputError
from lakewright.spec import option_values
from lakewright.spec import table_options as core_table_options
from lakewright.spec.option_values import (
    GIB,
    KIB,
    MAX_INT,
    MAX_LONG,
    MIB,
    TIB,
    ChangelogProducer,
    Mutability,
    OptionKind,
    SortOrder,
    parse_memory,
)

# ---- Keys and defaults -----------------------------------------------------------------------------------------------
# The options of `TableOptions` are here too, with the types that pypaimon gives them. Below are keys that lakewright
# does not read, and those with another type or default. A line without a default is an option without one.

OPTION_TABLE = """
auto-create                                             bool               false
blob-as-descriptor                                      bool               false
blob-view.resolve.enabled                               bool               true
blob.copy-buffer-size                                   size               4 kb
blob.target-file-size                                   size               256 mb
commit.native.enabled                                   bool               false
data-evolution.row-id-conflict-rewrite.max-size         size               256 mb
data-evolution.row-sidecar.enabled                      bool               false
data-evolution.row-sidecar.max-selected-rows            int                4096
data-evolution.row-sidecar.max-selection-ratio          float              0.05
data-evolution.write-cols-optimization.enabled          bool               false
manifest.sidecar.enabled                                bool
metadata.stats-mode                                     str                none
parquet.filter.columnindex.enabled                      bool               true
parquet.write-page-index.enabled                        bool
query-auth.enabled                                      bool               false
read.native.enabled                                     bool               false
scan.manifest.parallelism                               int                16
scan.mode                                               StartupMode        default
scan.native-plan.enabled                                bool               false
snapshot.ignore-empty-commit                            bool               true
variant.shreddingSchema                                 str
write.native.enabled                                    bool               false
"""

# The keys that cannot be changed once a table has snapshots.
IMMUTABLE_OPTIONS = frozenset(
    option.key()
    for option in core_table_options.KNOWN_OPTIONS
    if option.mutability in {Mutability.NEVER, Mutability.BEFORE_DATA}
    and option is not core_table_options.TableOptions.path
) | {"video-frame-field"}


# ---- Sizes and durations ---------------------------------------------------------------------------------------------

_UNITS = ((TIB, "tb"), (GIB, "gb"), (MIB, "mb"), (KIB, "kb"), (1, "bytes"))


@dataclass(frozen=True, order=True, repr=False)
class MemorySize:
    """A number of bytes.

    >>> MemorySize.parse("8 mb"), str(MemorySize(1024))
    (MemorySize(8388608), '1 kb')
    """

    ZERO: ClassVar[MemorySize]
    MAX_VALUE: ClassVar[MemorySize]
    bytes: int

    def __post_init__(self) -> None:
        if self.bytes < 0:
            raise InvalidInputError(f"bytes must be >= 0, not {self.bytes}")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Return so many MiB."""
        return MemorySize(mebi_bytes * MIB)

    @staticmethod
    def of_kibi_bytes(kibi_bytes: int) -> MemorySize:
        """Return so many KiB."""
        return MemorySize(kibi_bytes * KIB)

    @staticmethod
    def of_bytes(bytes: int) -> MemorySize:  # noqa: A002 - pypaimon's name
        """Return so many bytes."""
        return MemorySize(bytes)

    @staticmethod
    def parse(text: str) -> MemorySize:
        """Read text such as `8 mb`."""
        return MemorySize(MemorySize.parse_bytes(text))

    @staticmethod
    def parse_bytes(text: str) -> int:
        """Read text such as `8 mb` as a number of bytes."""
        try:
            return parse_memory(text)
        except (AttributeError, TypeError) as error:
            raise InvalidInputError(f"a size is a text such as '8 mb', not {text!r}") from error

    def get_bytes(self) -> int:
        """Return the number of bytes."""
        return self.bytes

    def get_kibi_bytes(self) -> int:
        """Return the whole KiB."""
        return self.bytes // KIB

    def get_mebi_bytes(self) -> int:
        """Return the whole MiB."""
        return self.bytes // MIB

    def get_gibi_bytes(self) -> int:
        """Return the whole GiB."""
        return self.bytes // GIB

    def get_tebi_bytes(self) -> int:
        """Return the whole TiB."""
        return self.bytes // TIB

    def format_to_string(self) -> str:
        """Return it in the largest unit of which it is a whole number."""
        unit, name = next(one for one in _UNITS if (self.bytes and self.bytes % one[0] == 0) or one[0] == 1)
        return f"{self.bytes // unit} {name}"

    def __str__(self) -> str:
        return self.format_to_string()

    def __repr__(self) -> str:
        return f"MemorySize({self.bytes})"


MemorySize.ZERO = MemorySize(0)
MemorySize.MAX_VALUE = MemorySize(MAX_LONG)


def parse_duration(text: str) -> int:
    """Read text such as `10 min` as milliseconds."""
    return parse_duration_nanos(text) // 10**6


def parse_duration_nanos(text: str) -> int:
    """Read text such as `10 min` as nanoseconds; a bare number is milliseconds."""
    try:
        return option_values.parse_duration_nanos(text)
    except (AttributeError, TypeError) as error:
        raise InvalidInputError(f"a duration is a text such as '10 min', not {text!r}") from error


# ---- Options of tables -----------------------------------------------------------------------------------------------
# `CoreOptions` has an attribute for each option of pypaimon that lakewright knows, and a method of the same name that
# returns the value in one map.


class MergeEngine(StrEnum):
    """How a primary-key table merges the rows of one key."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATE = "aggregation"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ExternalPathStrategy(StrEnum):
    """How the place of a new data file is chosen among paths outside the table."""

    NONE = "none"
    ROUND_ROBIN = "round-robin"
    SPECIFIC_FS = "specific-fs"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHTED = "weight-robin"


class StartupMode(StrEnum):
    """Where a read starts."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    INCREMENTAL = "incremental"


class NestedKeyNullStrategy(StrEnum):
    """What happens to nested rows whose key is null."""

    MERGE = "merge"
    IGNORE = "ignore"
    ERROR = "error"


class Description(NamedTuple):
    """What an option is for."""

    text: str


class OptionsUtils:
    """Turns values of options into typed values."""

    @staticmethod
    def convert_value(value: Any, target_type: Any) -> Any:  # noqa: ANN401 - the type of the option
        """Return a value as one of the type of an option."""
        if value is None or (isinstance(target_type, type) and isinstance(value, target_type)):
            return value
        if isinstance(target_type, type) and issubclass(target_type, Enum):
            return OptionsUtils.convert_to_enum(value, target_type)
        convert = _CONVERSIONS.get(target_type)
        if convert is None:
            raise InvalidInputError(f"Unsupported type: {target_type}")
        return convert(value)

    @staticmethod
    def convert_to_string(value: object) -> str:
        """Return a value as text."""
        return str(value.value if isinstance(value, Enum) else value)

    @staticmethod
    def convert_to_boolean(value: object) -> bool:
        """Return a value as a boolean; `yes`, `on` and `1` are true."""
        word = str(value).strip().lower()
        if word in {"true", "1", "yes", "on", "1.0"}:
            return True
        if word in {"false", "0", "no", "off", "0.0"}:
            return False
        raise InvalidInputError(f"Cannot convert {value!r} to boolean")

    @staticmethod
    def convert_to_int(value: Any) -> int:  # noqa: ANN401 - int refuses what is no number
        """Return a value as a whole number."""
        return int(value)

    convert_to_long = convert_to_int

    @staticmethod
    def convert_to_double(value: Any) -> float:  # noqa: ANN401 - float refuses what is no number
        """Return a value as a floating-point number."""
        return float(value)

    @staticmethod
    def convert_to_memory_size(value: Any) -> MemorySize:  # noqa: ANN401 - parse refuses what is no text
        """Return a text such as `8 mb` as a size."""
        return value if isinstance(value, MemorySize) else MemorySize.parse(value)

    @staticmethod
    def convert_to_duration(value: Any) -> timedelta:  # noqa: ANN401 - parse refuses what is no text
        """Return a text such as `10 min` as a duration."""
        return value if isinstance(value, timedelta) else timedelta(milliseconds=parse_duration(value))

    @staticmethod
    def convert_to_enum(value: object, enum_class: type[Enum]) -> Enum:
        """Return the member of an enum that has a value, or a name."""
        word = OptionsUtils.convert_to_string(value).strip().lower()
        for member in enum_class:
            if word in {str(member.value).lower(), member.name.lower()}:
                return member
        raise InvalidInputError(
            f"Cannot convert {value!r} to {enum_class.__name__}. Valid values: {[one.value for one in enum_class]}"
        )


_CONVERSIONS: dict[object, Callable[[Any], Any]] = {
    str: OptionsUtils.convert_to_string,
    bool: OptionsUtils.convert_to_boolean,
    int: OptionsUtils.convert_to_int,
    float: OptionsUtils.convert_to_double,
    MemorySize: OptionsUtils.convert_to_memory_size,
    timedelta: OptionsUtils.convert_to_duration,
}


class ConfigOption(option_values.ConfigOption[Any]):
    """One option: its key, the class of its values and its default."""

    EMPTY_DESCRIPTION: ClassVar = Description("")

    def __init__(
        self,
        key: str,
        clazz: Any,  # noqa: ANN401 - a class, or Dict[str, str]
        description: Description | None = None,
        default_value: Any = None,  # noqa: ANN401 - of that class
    ) -> None:
        if not key:
            raise InvalidInputError("Key must not be null.")
        allowed = f"a value of {getattr(clazz, '__name__', clazz)}"
        kind = OptionKind(
            getattr(clazz, "__name__", str(clazz)), allowed, lambda text: OptionsUtils.convert_value(text, clazz)
        )
        super().__init__(key, kind, default_value)
        object.__setattr__(self, "_clazz", clazz)
        object.__setattr__(self, "_description", description or self.EMPTY_DESCRIPTION)

    def get_clazz(self) -> Any:  # noqa: ANN401 - as given
        """Return the class of its values."""
        return self._clazz  # type: ignore[attr-defined]

    def description(self) -> Description:
        """Return what it is for."""
        found: Description = self._description  # type: ignore[attr-defined]
        return found

    def has_default_value(self) -> bool:
        """Return whether it has a default."""
        return self.default is not None

    def with_description(self, description: str | Description) -> ConfigOption:
        """Return the option with a description."""
        text = Description(description) if isinstance(description, str) else description
        return ConfigOption(self.name, self.get_clazz(), text, self.default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, option_values.ConfigOption) and (self.name, self.default) == (
            other.name,
            other.default,
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"key: '{self.name}'; default_value: {self.default}"


class ConfigOptions:
    """Makes options: `ConfigOptions.key("a.b").int_type().default_value(3)`."""

    @staticmethod
    def key(key: str) -> OptionBuilder:
        """Begin an option with its key."""
        if not key:
            raise InvalidInputError("Key must not be None or empty.")
        return OptionBuilder(key)


class OptionBuilder:
    """An option that has a key, and no type yet."""

    def __init__(self, key: str) -> None:
        self.key = key

    def _of(self, clazz: Any) -> TypedConfigOptionBuilder:  # noqa: ANN401 - as given
        return TypedConfigOptionBuilder(self.key, clazz)

    def boolean_type(self) -> TypedConfigOptionBuilder:
        """Take true and false."""
        return self._of(bool)

    def int_type(self) -> TypedConfigOptionBuilder:
        """Take whole numbers."""
        return self._of(int)

    long_type = int_type

    def float_type(self) -> TypedConfigOptionBuilder:
        """Take numbers."""
        return self._of(float)

    double_type = float_type

    def string_type(self) -> TypedConfigOptionBuilder:
        """Take text."""
        return self._of(str)

    def duration_type(self) -> TypedConfigOptionBuilder:
        """Take durations."""
        return self._of(timedelta)

    def memory_type(self) -> TypedConfigOptionBuilder:
        """Take sizes."""
        return self._of(MemorySize)

    def enum_type(self, enum_class: type[Enum]) -> TypedConfigOptionBuilder:
        """Take the values of an enum."""
        if not issubclass(enum_class, Enum):
            raise InvalidInputError("enum_class must be a subclass of Enum")
        return self._of(enum_class)

    def map_type(self) -> TypedConfigOptionBuilder:
        """Take keys with values."""
        return self._of(dict)

    def default_value(self, value: Any) -> ConfigOption:  # noqa: ANN401 - its class is the option's
        """Return an option of the class of its default."""
        if value is None:
            raise InvalidInputError("Value must not be None.")
        return ConfigOption(self.key, type(value), default_value=value)

    def no_default_value(self) -> ConfigOption:
        """Return an option for text without a default."""
        return ConfigOption(self.key, str)


class TypedConfigOptionBuilder:
    """An option that has a key and a type, and no default yet."""

    def __init__(self, key: str, clazz: Any) -> None:  # noqa: ANN401 - as given
        self.key = key
        self.clazz = clazz

    def default_value(self, value: Any) -> ConfigOption:  # noqa: ANN401 - of the class
        """Return the option with a default."""
        return ConfigOption(self.key, self.clazz, default_value=value)

    def no_default_value(self) -> ConfigOption:
        """Return the option without a default."""
        return ConfigOption(self.key, self.clazz)


class Options:
    """A map of text that returns typed values.

    >>> Options({"bucket": "4"}).get(ConfigOptions.key("bucket").int_type().no_default_value())
    4
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @classmethod
    def from_none(cls) -> Options:
        """Return an empty map."""
        return cls({})

    def to_map(self) -> dict[str, Any]:
        """Return the map itself."""
        return self.data

    def get(self, key: option_values.ConfigOption[Any], default: Any = None) -> Any:  # noqa: ANN401 - of the option's class
        """Return the value of an option, else the given default, else the option's own."""
        value = self.data.get(key.key())
        if value is not None:
            return key.parse(str(value)) if type(key) is option_values.ConfigOption else _convert_value(key, value)
        return key.default_value() if default is None else default

    def set(self, key: option_values.ConfigOption[Any], value: object) -> None:
        """Set the value of an option."""
        self.data[key.key()] = OptionsUtils.convert_to_string(value)

    def contains(self, key: option_values.ConfigOption[Any]) -> bool:
        """Return whether an option is set."""
        return key.key() in self.data

    def contains_key(self, key: str) -> bool:
        """Return whether a key is set."""
        return key in self.data

    def copy(self) -> Options:
        """Return a copy."""
        return Options(dict(self.data))


def _convert_value(key: Any, value: Any) -> Any:  # noqa: ANN401 - of the option's class
    return OptionsUtils.convert_value(value, key.get_clazz())


class CoreOptions(core_table_options.CoreOptions):
    """The options of one table.

    >>> CoreOptions.from_dict({"bucket": "4"}).bucket()
    4
    """

    options: Options
    FIELDS_PREFIX = "fields"
    LIST_AGG_DELIMITER = "list-agg-delimiter"
    DISTINCT = "distinct"
    NESTED_KEY = "nested-key"
    NESTED_SEQUENCE_FIELD = "nested-sequence-field"
    NESTED_KEY_NULL_STRATEGY = "nested-key-null-strategy"
    COUNT_LIMIT = "count-limit"
    MERGE_MAP_TS_FIELD = "ts-field"
    IMMUTABLE_OPTIONS = IMMUTABLE_OPTIONS
    FILE_FORMAT_ORC = "orc"
    FILE_FORMAT_AVRO = "avro"
    FILE_FORMAT_PARQUET = "parquet"

    def __init__(self, options: Options | Mapping[str, object]) -> None:
        held = options if isinstance(options, Options) else Options(dict(options))
        super().__init__({key: OptionsUtils.convert_to_string(value) for key, value in held.data.items()})
        object.__setattr__(self, "options", held)

    @staticmethod
    def from_dict(options: Mapping[str, object]) -> CoreOptions:
        """Take a map of options."""
        return CoreOptions(options)

    @staticmethod
    def copy(options: CoreOptions) -> CoreOptions:
        """Return a copy."""
        return CoreOptions(options.options.copy())

    def set(self, key: option_values.ConfigOption[Any], value: object) -> None:
        """Set the value of an option."""
        self.options.set(key, value)

    @staticmethod
    def primary_key_nullable_from_dict(options: Mapping[str, object]) -> bool:
        """Return whether a map of options lets key columns be null."""
        return OptionsUtils.convert_to_boolean(
            options.get(core_table_options.CoreOptions.PRIMARY_KEY_NULLABLE.key(), False)
        )

    def target_file_size(self, has_primary_key: bool, default: str | None = None) -> int:  # noqa: FBT001 - pypaimon's order
        """Return the size that data files are to have, in bytes."""
        fallback = MemorySize((128 if has_primary_key else 256) * MIB) if default is None else MemorySize.parse(default)
        size: MemorySize = self.options.get(_OPTIONS["target-file-size"], fallback)
        return size.get_bytes()

    def sequence_field(self) -> list[str]:
        """Return the columns whose greatest values are the newest."""
        text = self.options.get(_OPTIONS["sequence.field"]) or ""
        return [name.strip() for name in text.rstrip(",").split(",")] if text.strip() else []

    def sequence_field_sort_order_is_ascending(self) -> bool:
        """Return whether the greatest value of the sequence columns is the newest."""
        return bool(self.options.get(_OPTIONS["sequence.field.sort-order"]) == SortOrder.ASCENDING)

    def ignore_delete(self) -> bool:
        """Return whether deletions are ignored."""
        keys = (
            core_table_options.CoreOptions.IGNORE_DELETE.name,
            *core_table_options.CoreOptions.IGNORE_DELETE.old_names,
        )
        return any(OptionsUtils.convert_to_boolean(self.options.data.get(key, False)) for key in keys)

    def data_file_external_paths(self, default: str | None = None) -> list[str] | None:
        """Return the places of data files outside the table."""
        text = self.options.get(_OPTIONS["data-file.external-paths"], default)
        return [path.strip() for path in text.split(",") if path.strip()] if text else None

    def commit_timeout(self) -> int:
        """Return how long a commit may try, in milliseconds."""
        found = self.options.get(_OPTIONS["commit.timeout"])
        return sys.maxsize if found is None else int(found.total_seconds() * 1000)

    def metadata_stats_enabled(self, default: str | None = None) -> bool:
        """Return whether statistics of all columns are stored in full."""
        return bool(self.options.get(_OPTIONS["metadata.stats-mode"], default) == "full")

    def manifest_target_size(self, default: int | str | MemorySize | None = None) -> int:
        """Return the size that manifest files are to have, in bytes."""
        given = MemorySize(default) if isinstance(default, int) else default
        size = self.options.get(_OPTIONS["manifest.target-file-size"], given)
        return OptionsUtils.convert_to_memory_size(size).get_bytes()

    def manifest_sidecar_enabled(self) -> bool:
        """Return whether manifests get side files; as long as nothing is said, those that are sorted do."""
        own = self.options.get(_OPTIONS["manifest.sidecar.enabled"])
        return bool(self.options.get(_OPTIONS["manifest-sort.enabled"]) if own is None else own)

    def batch_scan_skip_level0(self) -> bool:
        """Return whether batch reads see compacted rows only."""
        if self.options.get(_OPTIONS["deletion-vectors.enabled"]):
            return not self.options.get(_OPTIONS["deletion-vectors.merge-on-read"])
        return bool(self.options.get(_OPTIONS["merge-engine"]) == MergeEngine.FIRST_ROW)

    def startup_mode(self) -> StartupMode:
        """Return where a read starts, which other options may say where `scan.mode` does not."""
        mode: StartupMode = self.options.get(_OPTIONS["scan.mode"])
        if mode != StartupMode.DEFAULT:
            return StartupMode.LATEST_FULL if mode == StartupMode.FULL else mode
        for keys, found in _IMPLIED_MODES:
            if any(self.options.contains_key(key) for key in keys.split()):
                return found
        return StartupMode.LATEST_FULL

    def blob_field(self, default: object = None) -> frozenset[str]:
        """Return the columns whose values are stored as blobs."""
        return _field_set(self.options.get(_OPTIONS["blob-field"], default))

    def blob_view_fields(self, default: object = None) -> frozenset[str]:
        """Return the columns that refer to blobs of other tables."""
        return _field_set(self.options.get(_OPTIONS["blob-view-field"], default))

    def blob_descriptor_fields(self, default: object = None) -> frozenset[str]:
        """Return the columns that hold descriptors of blobs."""
        return _field_set(self.options.get(_OPTIONS["blob-descriptor-field"], default))

    @property
    def query_auth_enabled(self) -> bool:
        """Whether reads ask a catalog what they may see."""
        return bool(self.options.get(_OPTIONS["query-auth.enabled"]))

    def field_listagg_delimiter(self, field_name: str) -> str:
        """Return what `listagg` puts between the values of a column."""
        return str(self._of_field(field_name, self.LIST_AGG_DELIMITER, str, ","))

    def field_collect_distinct(self, field_name: str) -> bool:
        """Return whether `collect` keeps each value of a column once."""
        return bool(self._of_field(field_name, self.DISTINCT, bool, default=False))

    def field_nested_update_agg_nested_key(self, field_name: str) -> list[str]:
        """Return the fields that identify a nested row of a column."""
        return _names_in(self._of_field(field_name, self.NESTED_KEY, str, None))

    def field_nested_update_agg_nested_sequence_field(self, field_name: str) -> list[str]:
        """Return the fields whose greatest values make a nested row of a column the newest."""
        return _names_in(self._of_field(field_name, self.NESTED_SEQUENCE_FIELD, str, None))

    def field_nested_update_agg_nested_key_null_strategy(self, field_name: str) -> NestedKeyNullStrategy:
        """Return what happens to nested rows of a column whose key is null."""
        default = NestedKeyNullStrategy.MERGE
        return NestedKeyNullStrategy(
            self._of_field(field_name, self.NESTED_KEY_NULL_STRATEGY, NestedKeyNullStrategy, default)
        )

    def field_nested_update_agg_count_limit(self, field_name: str) -> int:
        """Return how many nested rows of a column are kept."""
        return int(self._of_field(field_name, self.COUNT_LIMIT, int, MAX_INT))

    def field_merge_map_ts_field(self, field_name: str) -> str | None:
        """Return the field of a column's values whose greatest value makes an entry of a map the newest."""
        found: str | None = self._of_field(field_name, self.MERGE_MAP_TS_FIELD, str, None)
        return found

    def _of_field(self, name: str, key: str, clazz: Any, default: Any) -> Any:  # noqa: ANN401 - of that class
        return self.options.get(ConfigOption(f"fields.{name}.{key}", clazz, default_value=default))


_IMPLIED_MODES = (
    ("scan.timestamp-millis scan.timestamp", StartupMode.FROM_TIMESTAMP),
    ("scan.snapshot-id scan.tag-name scan.watermark scan.version", StartupMode.FROM_SNAPSHOT),
    ("incremental-between-timestamp", StartupMode.INCREMENTAL),
    ("scan.file-creation-time-millis", StartupMode.FROM_FILE_CREATION_TIME),
    ("scan.creation-time-millis", StartupMode.FROM_CREATION_TIMESTAMP),
)


def _names_in(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _field_set(value: Any) -> frozenset[str]:  # noqa: ANN401 - text, or several names
    names = value.split(",") if isinstance(value, str) else value or ()
    return frozenset(str(name).strip() for name in names if str(name).strip())


_CLASSES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "size": MemorySize,
    "time": timedelta,
    "map": dict,
    **{one.__name__: one for one in (ChangelogProducer, MergeEngine, SortOrder, StartupMode)},
}
_NAMES = {  # where the name of the attribute does not follow from the key
    "parquet.filter.columnindex.enabled": "PARQUET_COLUMN_INDEX_ENABLED",
    "partition.legacy-name": "PARTITION_GENERATE_LEGACY_NAME",
    "variant.shreddingSchema": "VARIANT_SHREDDING_SCHEMA",
}
_METHODS = {  # where the name of the method does not follow from that of the attribute
    "SCAN_NATIVE_PLAN_ENABLED": "native_plan_enabled",
    "READ_NATIVE_ENABLED": "native_read_enabled",
    "COMMIT_NATIVE_ENABLED": "native_commit_enabled",
    "WRITE_NATIVE_ENABLED": "native_write_enabled",
}


def _to_config_option(option: option_values.ConfigOption[Any]) -> ConfigOption:
    """Return an option of `TableOptions` with the type that pypaimon gives it."""
    value: Any = option.default
    match option.kind.type_name:
        case "size":
            value = None if value is None else MemorySize(value)
        case "time":
            value = None if value is None else timedelta(milliseconds=value)
        case "map":
            value = {}
        case "enum" if type(value).__name__ in _CLASSES:
            value = _CLASSES[type(value).__name__](value.value)
            return ConfigOption(option.key(), type(value), default_value=value)
        case "enum":
            value = value.value
        case "str":
            value = value or None  # pypaimon knows no lists of names
    return ConfigOption(option.key(), _CLASSES.get(option.kind.type_name, str), default_value=value)


def _option(line: str) -> ConfigOption:
    key, kind, *default = line.split(maxsplit=2)
    clazz = _CLASSES[kind]
    value = {} if clazz is dict else OptionsUtils.convert_value(default[0], clazz) if default else None
    return ConfigOption(key, clazz, default_value=value)


def _method(option: ConfigOption) -> Callable[..., Any]:
    def value_of(self: CoreOptions, default: Any = None) -> Any:  # noqa: ANN401 - of the option's class
        found = self.options.get(option, default)
        if isinstance(found, MemorySize) and option.key() != "file.block-size":
            return found.get_bytes()
        return int(found.total_seconds() * 1000) if isinstance(found, timedelta) else found

    value_of.__doc__ = f"Return the value of the option `{option.key()}`, else the given default, else its own."
    return value_of


_OPTIONS = {option.key(): option for option in map(_to_config_option, core_table_options.KNOWN_OPTIONS)}
_OPTIONS |= {option.key(): option for option in map(_option, OPTION_TABLE.strip().splitlines())}
for _key, _one in _OPTIONS.items():
    _name = _NAMES.get(_key) or _key.replace(".", "_").replace("-", "_").upper()
    setattr(CoreOptions, _name, _one)
    _called = _METHODS.get(_name, _name.lower())
    if _called not in vars(CoreOptions):
        setattr(CoreOptions, _called, _method(_one))


# ---- Options of catalogs and storages --------------------------------------------------------------------------------
# They are names for keys: what lakewright does about each key is in `spec.option_table` and `storage.credentials`.

_KINDS: dict[str, type] = {"str": str, "bool": bool, "int": int, "size": MemorySize}
# A class, and indented its options: name, key, type, default.
_TABLE = """
CatalogOptions
    CACHE_BLOB_INDEX_MAX_SIZE            cache.blob-index.max-size                  size  64 mb
    DATA_TOKEN_ENABLED                   data-token.enabled                         bool  false
    DLF_ACCESS_KEY_ID                    dlf.access-key-id                          str
    DLF_ACCESS_KEY_SECRET                dlf.access-key-secret                      str
    DLF_ACCESS_SECURITY_TOKEN            dlf.security-token                         str
    DLF_OSS_ENDPOINT                     dlf.oss-endpoint                           str
    DLF_REGION                           dlf.region                                 str
    DLF_SIGNING_ALGORITHM                dlf.signing-algorithm                      str   default
    DLF_TOKEN_ECS_METADATA_URL           dlf.token-ecs-metadata-url                 str
    DLF_TOKEN_ECS_ROLE_NAME              dlf.token-ecs-role-name                    str
    DLF_TOKEN_LOADER                     dlf.token-loader                           str
    DLF_TOKEN_PATH                       dlf.token-path                             str
    FILE_FORMAT_METADATA_CACHE_MAX_SIZE  file-format.metadata-cache.max-size        size  50 mb
    HTTP_USER_AGENT_HEADER               header.User-Agent                          str
    METASTORE                            metastore                                  str   filesystem
    PREFIX                               prefix                                     str
    RESOLVING_FILE_IO_ENABLED            resolving-file-io.enabled                  bool  false
    SYNC_ALL_PROPERTIES                  sync-all-properties                        bool  true
    TOKEN                                token                                      str
    TOKEN_PROVIDER                       token.provider                             str
    URI                                  uri                                        str
    USER_AGENT_EXTENDED                  user-agent.extended                        str
    USER_AGENT_FEATURES                  user-agent.features                        str
    USER_AGENT_MODULE                    user-agent.module                          str
    WAREHOUSE                            warehouse                                  str
FileIOOptions
    READ_COALESCE_MAX_BLOCK              file-io.read-coalesce.max-block            size  8 mb
    READ_COALESCE_MAX_GAP                file-io.read-coalesce.max-gap              size  1 mb
FuseOptions
    FUSE_ENABLED                         fuse.enabled                               bool  false
    FUSE_MODE                            fuse.mode                                  str   pvfs
    FUSE_ROOT                            fuse.root                                  str
    FUSE_VALIDATION_MODE                 fuse.validation-mode                       str   strict
GcsOptions
    GCS_ACCESS_TOKEN                     gcs.access-token                           str
    GCS_ACCESS_TOKEN_EXPIRATION          gcs.access-token.expiration                str
    GCS_PROJECT_ID                       gcs.project-id                             str
HdfsOptions
    HDFS_CLIENT_FALLBACK_TO_PYARROW      hdfs.client.fallback-to-pyarrow            bool  true
    HDFS_CLIENT_IMPL                     hdfs.client.impl                           str   native
    HDFS_CONF_DIR                        hdfs.conf-dir                              str
JdbcCatalogOptions
    CATALOG_KEY                          catalog-key                                str   jdbc
OssOptions
    OSS_ACCESS_KEY_ID                    fs.oss.accessKeyId                         str
    OSS_ACCESS_KEY_SECRET                fs.oss.accessKeySecret                     str
    OSS_ENDPOINT                         fs.oss.endpoint                            str
    OSS_IMPL                             fs.oss.impl                                str   jindo
    OSS_REGION                           fs.oss.region                              str
    OSS_SECURITY_TOKEN                   fs.oss.securityToken                       str
    OSS_SSE_ALGORITHM                    fs.oss.server-side-encryption-algorithm    str
    OSS_SSE_DATA_ENCRYPTION              fs.oss.server-side-data-encryption         str
    OSS_SSE_KMS_KEY_ID                   fs.oss.server-side-encryption-key-id       str
    OSS_SSE_METHOD                       fs.oss.server-side-encryption              str
PVFSOptions
    CACHE_ENABLED                        cache-enabled                              str   true
    TABLE_CACHE_TTL                      cache.expire-after-write                   int   1800
S3Options
    S3_ACCESS_KEY_ID                     fs.s3.accessKeyId                          str
    S3_ACCESS_KEY_SECRET                 fs.s3.accessKeySecret                      str
    S3_ENDPOINT                          fs.s3.endpoint                             str
    S3_REGION                            fs.s3.region                               str
    S3_SECURITY_TOKEN                    fs.s3.securityToken                        str
SecurityOptions
    KERBEROS_KEYTAB                      security.kerberos.login.keytab             str
    KERBEROS_PRINCIPAL                   security.kerberos.login.principal          str
    KERBEROS_USE_TICKET_CACHE            security.kerberos.login.use-ticket-cache   bool  true
"""


def _classes() -> dict[str, type]:
    found: dict[str, dict[str, Any]] = {}
    for line in _TABLE.strip().splitlines():
        if not line.startswith(" "):
            members = found.setdefault(line, {"__doc__": f"pypaimon's names for option keys: {line}."})
            continue
        name, key, kind, *default = line.split(maxsplit=3)
        option = ConfigOption(key, _KINDS[kind])
        members[name] = ConfigOption(key, _KINDS[kind], None, option.parse(default[0])) if default else option
    return {name: type(name, (), members) for name, members in found.items()}


_made = _classes()
CatalogOptions: Any = _made["CatalogOptions"]
FileIOOptions: Any = _made["FileIOOptions"]
FuseOptions: Any = _made["FuseOptions"]
GcsOptions: Any = _made["GcsOptions"]
HdfsOptions: Any = _made["HdfsOptions"]
JdbcCatalogOptions: Any = _made["JdbcCatalogOptions"]
OssOptions: Any = _made["OssOptions"]
PVFSOptions: Any = _made["PVFSOptions"]
S3Options: Any = _made["S3Options"]
SecurityOptions: Any = _made["SecurityOptions"]
