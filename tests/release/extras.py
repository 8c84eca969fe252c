"""What each extra is for: `python extras.py polars`, run by a Python that has the wheel with that extra and no more."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

import lakewright as lw

WAREHOUSE = tempfile.mkdtemp()
COLUMNS = pa.schema({"id": pa.int64(), "name": pa.string()})


def a_table() -> lw.FileStoreTable:
    """Make a table of three rows."""
    catalog = lw.CatalogFactory.create({"warehouse": WAREHOUSE})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), table)
    return table


def pandas() -> None:
    """Write and read frames."""
    import pandas as pd  # noqa: PLC0415

    table = a_table()
    lw.write_table(pd.DataFrame({"id": [4], "name": ["d"]}), table)
    read = table.new_read_builder()
    assert len(read.new_read().to_pandas(read.new_scan().plan().splits())) == 4


def polars() -> None:
    """Read a table as a lazy frame."""
    import polars as pl  # noqa: PLC0415

    assert lw.scan_polars(a_table()).filter(pl.col("id") > 2).collect().rows() == [(3, "c")]


def duckdb() -> None:
    """Read a table as a relation, also with instants, for which DuckDB needs another package."""
    assert lw.duckdb_relation(a_table()).filter("id > 1").aggregate("count(*)").fetchall() == [(2,)]
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    zoned = lw.create_table_from({"at": [moment]}, "d.zoned", catalog=WAREHOUSE)
    assert lw.duckdb_relation(zoned).fetchall() == [(moment,)]


def sql() -> None:
    """Run statements."""
    a_table()
    context = lw.SQLContext({"warehouse": WAREHOUSE}, database="d")
    context.sql("DELETE FROM t WHERE id = 1")
    assert context.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 2}]


def cli() -> None:
    """List a table on the command line."""
    a_table()
    command = [str(Path(sys.executable).with_name("lakewright")), "tables", "--warehouse", WAREHOUSE]
    assert "d.t" in subprocess.run(command, capture_output=True, text=True, check=True).stdout.replace(" ", "")


def rest() -> None:
    """Use a catalog on a server that the test started."""
    options = {"metastore": "rest", "uri": os.environ["PAIMON_URI"], "warehouse": "wh"}
    catalog = lw.CatalogFactory.create({**options, "token.provider": "bear", "token": os.environ["PAIMON_TOKEN"]})
    catalog.create_database("d")
    assert "d" in catalog.list_databases()


def _asked(uri: str) -> None:
    """Ask a database server that is not there: the driver must be found, and the server not."""
    try:
        lw.CatalogFactory.create({"metastore": "jdbc", "uri": uri, "warehouse": WAREHOUSE}).list_databases()
    except lw.LakewrightError as error:
        said = str(error)
    else:
        raise AssertionError(uri)
    assert "pip install" not in said, said


def postgres() -> None:
    """Find the driver."""
    _asked("jdbc:postgresql://127.0.0.1:1/none")


def mysql() -> None:
    """Find the driver."""
    _asked("jdbc:mysql://127.0.0.1:1/none")


def spark_jre() -> None:
    """Start a session without a Java of the system, write and read."""
    import lakewright.spark as lws  # noqa: PLC0415

    table = a_table()
    session = lws.local_session()
    lws.write_table(session.sql("SELECT id, 'x' AS name FROM range(10)"), table)
    assert lws.read_table(session, table, filter="name = 'x'").count() == 10
    session.stop()


def spark() -> None:
    """Find the functions; a session needs a Java, which this extra does not bring."""
    import lakewright.spark as lws  # noqa: PLC0415

    assert callable(lws.write_table)


def ray() -> None:
    """Read a dataset."""
    import ray as engine  # noqa: PLC0415

    import lakewright.ray as lwr  # noqa: PLC0415

    engine.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    assert lwr.read_table(a_table()).count() == 3


def torch() -> None:
    """Read splits as a dataset."""
    read = a_table().new_read_builder()
    assert len(list(read.new_read().to_torch(read.new_scan().plan().splits()))) == 3


def otel() -> None:
    """Turn what the process does into spans, of a provider that keeps none."""
    from lakewright import otel as spans  # noqa: PLC0415

    spans.install()
    a_table()
    spans.uninstall()


def lance() -> None:
    """Write and read a table with Lance files."""
    options = {"file.format": "lance"}
    table = lw.create_table_from({"id": [1, 2]}, "d.lance", catalog=WAREHOUSE, options=options)
    assert lw.read_table(table)["id"].to_pylist() == [1, 2]


EXTRAS: dict[str, Callable[[], None]] = {
    "pandas": pandas,
    "polars": polars,
    "duckdb": duckdb,
    "sql": sql,
    "cli": cli,
    "rest": rest,
    "postgres": postgres,
    "mysql": mysql,
    "spark": spark,
    "spark-jre": spark_jre,
    "ray": ray,
    "torch": torch,
    "otel": otel,
    "lance": lance,
}

if __name__ == "__main__":
    EXTRAS[sys.argv[1]]()
    assert Path(lw.__file__).is_relative_to(sys.prefix), "the sources were read, not the installed wheel"
