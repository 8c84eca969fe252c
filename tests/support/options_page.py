"""The page docs/options.md: the table of option keys and their defaults in, markdown out.

`python -m support.options_page` in tests/ writes it, and a test compares it with what is written.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from lakewright.spec.option_table import FAMILIES, RULES, Handling, OptionRule

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "options.md"
OURS = "ours"
# Every key of the other implementations, by its name: group, key, default, type.
KEYS = {row["key"]: row for row in csv.DictReader((TESTS / "golden" / "option-keys.csv").read_text().splitlines())}
GROUPS = {
    "core": "Tables",
    "orc": "ORC files",
    "iceberg": "Iceberg metadata",
    "catalog": "Catalogs",
    "jdbc_catalog": "JDBC catalogs",
    "spark_connector": "Java's Spark connector",
    "spark_catalog": "Java's Spark catalog",
    OURS: "Keys that only some implementations have",
}
SECTIONS = {
    Handling.REFUSED: "The table is not what it seems to those who ignore it. Neither reads nor writes go on.",
    Handling.REFUSED_WHEN_READ: "To ignore it would change which rows are returned. Writes go on, reads do not.",
    Handling.REFUSED_WHEN_WRITTEN: "To ignore it would change what others rely on. Reads go on, writes do not.",
    Handling.WARNED: "Others do something at a commit that lakewright does not. The first commit of a process says so.",
    Handling.HONOURED: "It means here what it means elsewhere.",
    Handling.HARMLESS: "It changes no rows, no files that others must see, and no promise. It is accepted and ignored.",
}
_HEAD = """\
# Options

Look up any option key of Paimon's implementations and what lakewright does with it. No option is ignored silently.

- **Refused options** are refused before anything is written: by `create_table`, `alter_table`, `table.copy`,
  `open_table` and Spark's options, and when rows of a table that stores them are read or written. A value that asks for
  nothing, such as the default, is never refused.
- **Unknown keys** cause a `LakewrightWarning` that names the most similar key, once per process and table.
  `format("lakewright")` on Spark refuses them.
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
    yield from ("| class | keys |", "| --- | --- |")
    for handling in SECTIONS:
        count = sum(RULES[key].handling is handling for key in KEYS)
        yield f"| [{handling}](#{handling.replace(' ', '-')}) | {count} |"
    for handling, meaning in SECTIONS.items():
        yield from ("", f"## {handling.capitalize()}", "", meaning)
        for group, title in GROUPS.items():
            keys = sorted(key for key, rule in RULES.items() if rule.handling is handling and _group(key) == group)
            if keys:
                yield from ("", f"### {title}: {handling}", "", *_table(handling, keys))
    yield from ("", "## Keys with a part that you choose", "", "| keys | class | why |", "| --- | --- | --- |")
    for _, shown, rule in FAMILIES:
        yield f"| {_code(shown.split(', '))} | {rule.handling}{_kinds(rule)} | {rule.reason} |"


def _table(handling: Handling, keys: Iterable[str]) -> Iterator[str]:
    if handling is Handling.HONOURED:
        yield from ("| key | default |", "| --- | --- |")
        yield from (f"| `{key}`{_kinds(RULES[key])} | {_default(key)} |" for key in keys)
        return
    yield from ("| key | default | why, and what to do |", "| --- | --- | --- |")
    yield from (f"| `{key}` | {_default(key)} | {_reason(RULES[key])} |" for key in keys)


def _reason(rule: OptionRule) -> str:
    fine = f"; {_code(sorted(rule.idle))} is fine" if rule.idle else ""
    compactors = (
        "; not said about `write-only` tables" if rule.handling is Handling.WARNED and rule.by_compactors else ""
    )
    return f"{rule.reason}{fine}{compactors}".replace("|", "\\|")


def _kinds(rule: OptionRule) -> str:
    return f" (metastore {', '.join(sorted(rule.metastores))})" if rule.metastores else ""


def _group(key: str) -> str:
    return KEYS[key]["group"] if key in KEYS else OURS


def _default(key: str) -> str:
    default = KEYS[key]["default"].strip('"') if key in KEYS else ""
    return "" if default in {"", "(none)"} else f"`{default}`"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(options_page())


if __name__ == "__main__":
    main()
