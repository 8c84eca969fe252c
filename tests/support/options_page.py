"""The page docs/options.md, made from the table of option keys.

`python -m support.options_page` in tests/ writes it, and a test compares it with what is written.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from lakewright.spec.option_table import DECLARATIONS, FAMILIES, RULES, Handling, OptionRule
from lakewright.spec.option_values import MIB, ConfigOption, Mutability, option_text
from lakewright.spec.table_options import TableOptions

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "options.md"
# Every key of the other implementations, by its name: group, key, default, type.
KEYS = {row["key"]: row for row in csv.DictReader((TESTS / "golden" / "option-keys.csv").read_text().splitlines())}
GROUPS = {  # what a key that is not of a table is for
    "iceberg": "for Iceberg metadata",
    "catalog": "an option of catalogs",
    "jdbc_catalog": "an option of catalogs",
    "spark_connector": "an option of Java's Spark connector",
    "spark_catalog": "an option of Java's Spark catalog",
}
MEANINGS = {
    Handling.HONOURED: "It has the same effect as in other implementations.",
    Handling.HARMLESS: "It is accepted and ignored: it changes no rows, no files that others must see, and no promise.",
    Handling.REFUSED: "Ignoring it would make the table another one. It can neither be read nor written.",
    Handling.REFUSED_WHEN_READ: "Ignoring it would change which rows are returned. The table can be written.",
    Handling.REFUSED_WHEN_WRITTEN: "Ignoring it would change what others rely on. The table can be read.",
    Handling.WARNED: "Others do something at a commit that lakewright does not. The first commit of a process warns.",
}
TYPES = {  # of the other implementations, by the names that declarations use
    "Boolean": "bool",
    "Integer": "int",
    "Long": "int",
    "Double": "float",
    "Float": "float",
    "String": "str",
    "MemorySize": "size",
    "Duration": "time",
    "Map": "map",
}
CHANGES = {
    Mutability.BEFORE_DATA: "cannot change once the table has data",
    Mutability.TURN_ON: "cannot be turned off once the table has data",
    Mutability.NEVER: "cannot change",
}
_HEAD = """\
# Options

Look up any option key of Paimon's implementations: its type, its default and what lakewright does with it. No option
is ignored silently.

- **Refused options** are refused before anything is written: by `create_table`, `alter_table`, `table.copy`,
  `open_table` and Spark's options, and when rows of a table that stores them are read or written. A value that asks for
  nothing, such as the default, is never refused.
- **Unknown keys** cause a `LakewrightWarning` that names the most similar key, once per process and table.
  `format("lakewright")` on Spark refuses them.
- **Types**: a size is text such as `8 mb`, a time such as `10 min`, a map such as `0:avro,5:parquet`. A value that
  cannot be read is an error when it is set; a stored one is an error where it is needed.
- **Storage options** (`s3.`, `fs.`, `gs.`, `adls.`, `oss.`, `dfs.` ...) are described in [storage](storage.md).

```python
import warnings
import pyarrow as pa
import lakewright as lw

catalog = lw.CatalogFactory.create({"warehouse": "warehouse"})
catalog.create_database("shop")
columns = pa.schema({"id": pa.int64()})
with warnings.catch_warnings(record=True, action="always") as said:
    catalog.create_table("shop.orders", lw.Schema.from_pyarrow_schema(columns, options={"target-file-sise": "64 mb"}))
assert "did you mean 'target-file-size'?" in str(said[0].message)
try:
    catalog.get_table("shop.orders").copy({"query-auth.enabled": "true"})
except lw.UnsupportedError as error:
    assert "the option 'query-auth.enabled' = 'true' is not supported" in str(error)
```

"""


def options_page() -> str:
    """Return the page."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from ("| class | keys | meaning |", "| --- | --- | --- |")
    for handling, meaning in MEANINGS.items():
        count = sum(rule.handling is handling for rule in RULES.values())
        yield f"| {handling} | {count} | {meaning} |"
    # The script of the site puts a field here that filters the rows of the table below it.
    yield from ("", "## All keys", "", '<div id="option-filter"></div>', "")
    yield from ("| key | type | default | class | notes |", "| --- | --- | --- | --- | --- |")
    for key in sorted(RULES, key=str.lower):
        rule = RULES[key]
        yield f"| `{key}` | {_type(key)} | {_default(key)} | {rule.handling} | {_notes(key, rule)} |"
    yield from ("", "## Keys with a part that you choose", "", "| keys | class | why |", "| --- | --- | --- |")
    for _, shown, rule in FAMILIES:
        yield f"| {_code(shown.split(', '))} | {rule.handling}{_kinds(rule)} | {rule.reason} |"


def _type(key: str) -> str:
    if key in DECLARATIONS:
        return DECLARATIONS[key].kind.type_name
    return TYPES.get(KEYS[key]["type"], "enum") if key in KEYS else ""


def _default(key: str) -> str:
    if key in KEYS:
        default = KEYS[key]["default"].strip('"')
    else:
        option = DECLARATIONS.get(key)
        default = "" if option is None or option.key() != key else _own_default(option)
    return "" if default in {"", "(none)"} else f"`{default}`"


def _own_default(option: ConfigOption[object]) -> str:
    default = option.default
    if option is TableOptions.lakewright_write_threads or option is TableOptions.lakewright_read_threads:
        return "number of processors"
    if option.kind.type_name == "size" and isinstance(default, int):
        return f"{default // MIB} mb"
    if option.kind.type_name == "time" and isinstance(default, int):
        hours = default // 3_600_000
        return f"{hours} h" if hours % 24 else f"{hours // 24} d"
    return "" if default is None else option_text(option.key(), default)


def _notes(key: str, rule: OptionRule) -> str:
    option = DECLARATIONS.get(key)
    notes = [rule.reason] if rule.reason else []
    if rule.idle:
        notes.append(f"{_code(sorted(rule.idle))} is fine")
    if rule.handling is Handling.WARNED and rule.by_compactors:
        notes.append("no warning about `write-only` tables")
    if option is not None and option.key() != key:
        notes.append(f"old name of `{option.key()}`")
    elif option is not None and option.kind.type_name == "enum":
        notes.append(option.kind.allowed)
    if option is not None and rule.handling is Handling.HONOURED and option.mutability in CHANGES:
        notes.append(CHANGES[option.mutability])
    if key in KEYS and KEYS[key]["group"] in GROUPS:
        notes.append(f"{GROUPS[KEYS[key]['group']]}{_kinds(rule)}")
    return "; ".join(notes).replace("|", "\\|")


def _kinds(rule: OptionRule) -> str:
    return f" (metastore {', '.join(sorted(rule.metastores))})" if rule.metastores else ""


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(options_page())


if __name__ == "__main__":
    main()
