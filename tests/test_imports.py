"""`import lakewright` is light, its names load what every program needs; engines and drivers come when named."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lakewright as lw

LATE = ("urllib3", "psycopg", "pymysql", "sqlite3", "pyspark", "ray", "torch", "sqlglot", "duckdb", "polars", "rich")
# Arrow imports pandas with its datasets, and when it first makes an array of Python's values.
HEAVY = ("pandas", "pyarrow.dataset", "pyarrow.acero")
# Large modules of the standard library that only streams under asyncio and reports to servers need.
STANDARD = ("asyncio", "urllib.request", "http.client")
WORK = """
import tempfile
import pyarrow as pa
import lakewright as lw
warehouse = tempfile.mkdtemp()
catalog = lw.CatalogFactory.create({"warehouse": warehouse})
catalog.create_database("d")
columns = pa.schema([pa.field("id", pa.int64(), nullable=KEYED), pa.field("name", pa.string())])
rows = pa.table({"id": [1, 1, 1], "name": ["a", "b", "c"]}, columns)
catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=KEYS))
table = lw.open_table(warehouse + "/d.db/t")
lw.write_table(rows, table)
assert lw.read_table(table, filter="id < 2", columns=["id"]).num_rows == ROWS
"""


def _loaded(program: str, looked_for: tuple[str, ...] = LATE) -> set[str]:
    code = f"import sys\n{program}\nprint(*(name for name in {looked_for!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "program",
    [
        "import lakewright",
        "from lakewright import *",
        "import lakewright.pypaimon",
        "import lakewright, tempfile\nlakewright.CatalogFactory.create({'warehouse': tempfile.mkdtemp()})",
    ],
)
def test_no_client_and_no_driver_is_loaded(program: str) -> None:
    assert _loaded(program) == set()


@pytest.mark.parametrize("program", ["import lakewright", "from lakewright import *", "import lakewright.public"])
def test_names_are_loaded_without_pandas_and_datasets(program: str) -> None:
    assert _loaded(program, HEAVY) == set()


@pytest.mark.parametrize(("keys", "rows"), [([], 3), (["id"], 1)], ids=["append", "primary key"])
def test_a_write_and_a_read_load_no_other_library(keys: list[str], rows: int) -> None:
    """All but pandas: Arrow itself looks for it when it first turns an array into one of numpy, or makes one."""
    program = f"KEYS, KEYED, ROWS = {keys!r}, {not keys}, {rows}\n{WORK}"
    assert _loaded(program, (*LATE, *HEAVY, *STANDARD)) <= {"pandas"}


def test_the_package_itself_loads_no_room_and_no_arrow() -> None:
    assert _loaded("import lakewright", ("lakewright.public", "lakewright.table", "pyarrow", "numpy")) == set()
    assert _loaded("import lakewright\nlakewright.__version__", ("lakewright.public", "pyarrow")) == set()


def test_names_are_listed_and_can_all_be_imported() -> None:
    listed = "import lakewright\nprint(*(name for name in lakewright.__all__ if name not in dir(lakewright)))"
    everything = "from lakewright import *\nfrom lakewright import __all__\nprint(*(set(__all__) - set(globals())))"
    for program in (listed, everything):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.split() == []
    assert {"CatalogFactory", "read_table", "RESTCatalog", "sql"} <= set(dir(lw))


def test_catalogs_on_servers_and_in_databases_are_loaded_when_they_are_named() -> None:
    assert _loaded("from lakewright import RESTCatalog") == {"urllib3"}
    assert _loaded("import lakewright\nlakewright.JdbcCatalog") == {"sqlite3"}
    assert issubclass(lw.RESTCatalog, lw.Catalog)
    assert issubclass(lw.JdbcCatalog, lw.Catalog)


def test_sql_needs_an_extra() -> None:
    assert "sqlglot" in _loaded("import lakewright\nlakewright.SQLContext")
    hidden = "import sys\nsys.modules['sqlglot'] = None\nimport lakewright\n"
    tried = "try:\n    lakewright.sql\nexcept lakewright.UnsupportedError as error:\n    print(error.message)"
    done = subprocess.run([sys.executable, "-c", hidden + tried], capture_output=True, text=True, check=True)
    assert "pip install 'lakewright[sql]'" in done.stdout


@pytest.mark.parametrize(("name", "package"), [("scan_polars", "polars"), ("duckdb_relation", "duckdb")])
def test_lazy_tables_of_other_libraries_need_their_extra(name: str, package: str) -> None:
    hidden = f"import sys\nsys.modules[{package!r}] = None\nimport lakewright\n"
    tried = f"try:\n    lakewright.{name}\nexcept lakewright.UnsupportedError as error:\n    print(error.message)"
    done = subprocess.run([sys.executable, "-c", hidden + tried], capture_output=True, text=True, check=True)
    assert f"pip install 'lakewright[{package}]'" in done.stdout


def test_other_names_are_missing_as_in_any_module() -> None:
    assert not hasattr(lw, "HiveCatalog")
    with pytest.raises(AttributeError, match="module 'lakewright' has no attribute 'HiveCatalog'"):
        _ = lw.HiveCatalog  # type: ignore[attr-defined]


def test_sql_is_loaded_when_it_is_named() -> None:
    assert _loaded("import lakewright.spark") == {"pyspark"}
    assert "sqlglot" in _loaded("import lakewright.spark\nlakewright.spark.SQLContext")
