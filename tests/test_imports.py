"""`import lakewright` is light, its names load what every program needs; engines and drivers come when named."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lakewright as lw
from support.warm_processes import BARE

LATE = ("urllib3", "psycopg", "pymysql", "sqlite3", "pyspark", "ray", "torch", "sqlglot", "duckdb", "polars", "rich")
# Arrow imports pandas with its datasets, and when it first makes an array of Python's values.
HEAVY = ("pandas", "pyarrow.dataset", "pyarrow.acero")
# Large modules of the standard library that only streams under asyncio and reports to servers need.
STANDARD = ("asyncio", "urllib.request", "http.client")
# What of these a step of a program has loaded is printed after it; the process forks from one that has numpy and Arrow.
LOADED = f"""
import sys
def show(*_):
    print(*(name for name in {(*LATE, *HEAVY, *STANDARD)!r} if name in sys.modules))
"""
WORK = """
import tempfile
import pyarrow as pa
import lakewright as lw
warehouse = tempfile.mkdtemp()
catalog = lw.CatalogFactory.create({"warehouse": warehouse})
catalog.create_database("d")
for name, keys, kept in (("appended", [], 3), ("keyed", ["id"], 1)):
    columns = pa.schema([pa.field("id", pa.int64(), nullable=not keys), pa.field("name", pa.string())])
    rows = pa.table({"id": [1, 1, 1], "name": ["a", "b", "c"]}, columns)
    catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(columns, primary_keys=keys))
    table = lw.open_table(f"{warehouse}/d.db/{name}")
    lw.write_table(rows, table)
    assert lw.read_table(table, filter="id < 2", columns=["id"]).num_rows == kept
    show()
"""


def _output(program: str) -> list[str]:
    """Return the lines that a program prints in a process that has loaded nothing of lakewright."""
    done = BARE.run(LOADED + program)
    assert (done.code, done.err) == (0, "")
    return done.out.splitlines()


def _loaded(program: str) -> list[set[str]]:
    """Return the libraries that are loaded at each `show()` of a program."""
    return [set(line.split()) for line in _output(program)]


@pytest.mark.processes
def test_importing_the_package_loads_neither_its_names_nor_arrow() -> None:
    watched = ("lakewright.public", "lakewright.table", "pyarrow", "numpy", *LATE, *HEAVY, *STANDARD)
    shown = f"print(*(name for name in {watched!r} if name in sys.modules))"
    program = f"import sys\nimport lakewright\n{shown}\nlakewright.__version__\n{shown}\nimport tempfile"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"


def test_all_names_are_listed_and_loading_them_loads_no_client_no_driver_and_not_pandas() -> None:
    program = """
import lakewright.public
show()
from lakewright import *
show()
import lakewright
print(*(name for name in lakewright.__all__ if name not in dir(lakewright) or name not in globals()))
import lakewright.pypaimon
show()
"""
    assert _output(program) == ["", "", "", ""]
    assert {"CatalogFactory", "read_table", "RESTCatalog", "sql"} <= set(dir(lw))


def test_a_write_and_a_read_load_no_other_library() -> None:
    """All but pandas: Arrow itself looks for it when it first turns an array into one of numpy, or makes one."""
    appended, keyed = _loaded(WORK)
    assert appended <= {"pandas"}
    assert keyed <= {"pandas"}


def test_catalogs_on_servers_and_in_databases_and_sql_are_loaded_when_they_are_named() -> None:
    named = "".join(f"lakewright.{name}\nshow()\n" for name in ("RESTCatalog", "JdbcCatalog", "SQLContext"))
    rest, jdbc, sql = (loaded & set(LATE) for loaded in _loaded(f"import lakewright\n{named}"))
    assert (rest, jdbc) == ({"urllib3"}, {"urllib3", "sqlite3"})
    assert sql >= {"sqlglot", "duckdb"}
    assert issubclass(lw.RESTCatalog, lw.Catalog)
    assert issubclass(lw.JdbcCatalog, lw.Catalog)


def test_names_that_need_an_extra_name_it() -> None:
    names = {"sql": "sql", "scan_polars": "polars", "duckdb_relation": "duckdb"}
    program = f"""
for package in ("sqlglot", "polars", "duckdb"):
    sys.modules[package] = None
import lakewright
for name in {list(names)!r}:
    try:
        getattr(lakewright, name)
    except lakewright.UnsupportedError as error:
        print(error.message)
"""
    for message, extra in zip(_output(program), names.values(), strict=True):
        assert f"pip install 'lakewright[{extra}]'" in message


def test_other_names_are_missing_as_in_any_module() -> None:
    assert not hasattr(lw, "HiveCatalog")
    with pytest.raises(AttributeError, match="module 'lakewright' has no attribute 'HiveCatalog'"):
        _ = lw.HiveCatalog  # type: ignore[attr-defined]


def test_the_package_for_spark_loads_sql_when_it_is_named() -> None:
    first, second = _loaded("import lakewright.spark\nshow()\nlakewright.spark.SQLContext\nshow()")
    assert first & set(LATE) == {"pyspark"}
    assert "sqlglot" in second
