"""External paths and other tables: what is refused before it is written, and what no upkeep deletes."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.schema import SchemaChange
from support.rest_server import running_rest
from support.s3 import S3Server

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False)])
PATHS, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"


@pytest.fixture(params=["filesystem", "jdbc"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[lw.Catalog]:
    names = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db"} if request.param == "jdbc" else {}
    with lw.CatalogFactory.create({"warehouse": f"{tmp_path}/wh", "lakewright.durable": "false", **names}) as made:
        made.create_database("d")
        made.create_table("d.victim", lw.Schema.from_pyarrow_schema(COLUMNS))
        for number in range(3):
            _write(made, "d.victim", number)
        yield made


def _write(catalog: lw.Catalog, name: str, number: int, mode: Literal["append", "overwrite"] = "append") -> None:
    lw.write_table(pa.table({"id": [number]}, schema=COLUMNS), catalog.get_table(name), mode=mode)


def _options(*paths: str, strategy: str = "round-robin") -> dict[str, str]:
    return {PATHS: ",".join(paths), STRATEGY: strategy}


def _create(catalog: lw.Catalog, name: str, *paths: str) -> None:
    catalog.create_table(name, lw.Schema.from_pyarrow_schema(COLUMNS, options=_options(*paths)))


def _ids(catalog: lw.Catalog, name: str) -> list[int]:
    return sorted(lw.read_table(catalog.get_table(name))["id"].to_pylist())


def _remove_orphans(catalog: lw.Catalog, name: str) -> list[str]:
    time.sleep(0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.LakewrightWarning)
        return [*catalog.get_table(name).remove_orphan_files(older_than=dt.timedelta(milliseconds=1)).paths]


def _upkeep(catalog: lw.Catalog, name: str) -> None:
    """Do all that deletes files of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lw.LakewrightWarning)
        table = catalog.get_table(name)
        _write(catalog, name, 50, mode="overwrite")
        table.expire_snapshots(retain_max=1, retain_min=1)
        _remove_orphans(catalog, name)
        table.repair()
        table.purge_files()
        catalog.drop_table(name)


def _force(catalog: lw.Catalog, name: str, path: str) -> None:
    """Give a table an external path by its schema file, as a crafted or an old one may have it."""
    file = Path(catalog.get_table(name).table_path) / "schema" / "schema-0"
    schema = json.loads(file.read_text())
    schema["options"].update(_options(path))
    file.write_text(json.dumps(schema))


# Refused before anything is written.


ROOTS = ("file:///", "file:/", "/", "s3://bucket", "s3://bucket/", "oss://bucket//")
TABLES = (
    *("file://{wh}", "file://{wh}/d.db", "file:{wh}/d.db/victim", "file://{wh}/d.db/victim/bucket-0"),
    *("{wh}/d.db/victim/", "file://{wh}/d.db/t", "file://{wh}/d.db/later", "file://{wh}/.."),
    *("file://{wh}/x/../d.db/victim", "file://{wh}//d.db//victim", "file://{tmp}", "file://{tmp}/link"),
)
VERBS = ("create", "alter", "copy", "sql")


@pytest.mark.parametrize(
    ("catalog", "path", "verb"),
    [
        *(("filesystem", path, "create") for path in (*ROOTS, *TABLES)),
        *(("filesystem", path, verb) for path in (ROOTS[0], TABLES[2]) for verb in VERBS[1:]),
        ("jdbc", TABLES[2], "create"),
    ],
    indirect=["catalog"],
)
def test_an_external_path_at_a_root_or_where_tables_are_is_refused(
    catalog: lw.Catalog, tmp_path: Path, path: str, verb: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "wh" / "d.db" / "victim")
    place = path.format(wh=tmp_path / "wh", tmp=tmp_path)
    if verb in {"alter", "copy"}:
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(lw.InvalidInputError, match=r"data-file.external-paths"):  # noqa: PT012
        if verb == "create":
            _create(catalog, "d.t", "file:///tmp/fine", place)
        elif verb == "sql":
            options = ", ".join(f"'{key}' = '{value}'" for key, value in _options(place).items())
            lw.SQLContext(catalog).sql(f"CREATE TABLE d.t (id BIGINT) TBLPROPERTIES ({options})")
        elif verb == "alter":
            changes = [SchemaChange.set_option(key, value) for key, value in _options(place).items()]
            catalog.alter_table("d.t", changes)
        else:
            catalog.get_table("d.t").copy(_options(place))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("inner", ["", "/d.db", "/d.db/victim", "/d.db/victim/bucket-0"])
def test_an_external_path_where_tables_of_another_warehouse_are_is_refused(
    catalog: lw.Catalog, tmp_path: Path, inner: str
) -> None:
    shutil.copytree(tmp_path / "wh", tmp_path / "wh2")
    with pytest.raises(lw.InvalidInputError, match="another table"):
        _create(catalog, "d.t", f"file://{tmp_path}/wh2{inner}")


def test_a_server_says_where_tables_are(tmp_path: Path) -> None:
    with running_rest(str(tmp_path / "data")) as server, lw.CatalogFactory.create(server.options) as catalog:
        catalog.create_database("d")
        catalog.create_table("d.victim", lw.Schema.from_pyarrow_schema(COLUMNS))
        place = catalog.get_table("d.victim").table_path
        for path in (place, f"{place}/x", str(tmp_path / "data"), "/"):
            with pytest.raises(lw.InvalidInputError, match=r"data-file.external-paths"):
                _create(catalog, "d.t", f"file://{path}")
        assert catalog.list_tables("d") == ["victim"]


# Never deleted.


@pytest.mark.parametrize("path", ["d.db/victim", "d.db", "link", "d.db/victim/../victim"])
def test_no_upkeep_deletes_in_the_directory_of_another_table(catalog: lw.Catalog, tmp_path: Path, path: str) -> None:
    """An old or crafted schema names it: orphans are not looked for there."""
    (tmp_path / "wh" / "link").symlink_to(tmp_path / "wh" / "d.db" / "victim")
    catalog.create_table("d.evil", lw.Schema.from_pyarrow_schema(COLUMNS))
    _force(catalog, "d.evil", f"file://{tmp_path}/wh/{path}")
    try:
        _upkeep(catalog, "d.evil")
    except lw.LakewrightError:
        catalog.drop_table("d.evil", ignore_if_not_exists=True)
    assert _ids(catalog, "d.victim") == [0, 1, 2]
    catalog.create_table("d.bucket-0", lw.Schema.from_pyarrow_schema(COLUMNS))  # a table like the directory of a bucket
    _write(catalog, "d.bucket-0", 1)
    catalog.create_table("d.evil", lw.Schema.from_pyarrow_schema(COLUMNS))
    _force(catalog, "d.evil", f"file://{tmp_path}/wh/d.db")
    try:
        _upkeep(catalog, "d.evil")
    except lw.LakewrightError:
        catalog.drop_table("d.evil", ignore_if_not_exists=True)
    assert _ids(catalog, "d.bucket-0") == [1]


@pytest.mark.parametrize("link", [False, True])
def test_no_upkeep_deletes_files_of_another_table_that_manifests_name(
    catalog: lw.Catalog, tmp_path: Path, link: bool
) -> None:
    """The external directory of a table became the directory of another one: its files are named by both."""
    _create(catalog, "d.evil", f"file://{tmp_path}/ext/inner")
    _write(catalog, "d.evil", 9)
    victim = tmp_path / "wh" / "d.db" / "victim"
    ours = next(path for path in (tmp_path / "ext" / "inner" / "bucket-0").iterdir())
    shutil.copy(ours, victim / "bucket-0" / ours.name)
    shutil.rmtree(tmp_path / "ext" / "inner")
    if link:
        (tmp_path / "ext" / "inner").symlink_to(victim)
    else:
        shutil.copytree(victim, tmp_path / "ext" / "inner")
    there = (victim if link else tmp_path / "ext" / "inner") / "bucket-0"
    before = {path.name for path in there.iterdir()}
    assert ours.name in before
    _upkeep(catalog, "d.evil")
    assert before <= {path.name for path in there.iterdir()}
    assert _ids(catalog, "d.victim") == [0, 1, 2]


@pytest.mark.parametrize("inner", ["", "/bucket-0", "/bucket-0/0101"])
def test_orphans_of_a_shared_directory_stay_in_any_warehouse(catalog: lw.Catalog, tmp_path: Path, inner: str) -> None:
    other = lw.CatalogFactory.create({"warehouse": f"{tmp_path}/elsewhere", "lakewright.durable": "false"})
    other.create_database("d")
    _create(catalog, "d.t", f"file://{tmp_path}/ext")
    _create(other, "d.t", f"file:{tmp_path}/ext{inner}/")
    for number in (1, 2):
        _write(catalog, "d.t", number)
        _write(other, "d.t", number + 10)
    assert not _remove_orphans(catalog, "d.t")
    assert not _remove_orphans(other, "d.t")
    assert (_ids(catalog, "d.t"), _ids(other, "d.t")) == ([1, 2], [11, 12])
    _upkeep(catalog, "d.t")
    assert _ids(other, "d.t") == [11, 12]


def test_orphans_stay_where_files_were_before_the_table(catalog: lw.Catalog, tmp_path: Path) -> None:
    """A table of another implementation claims nothing, but it has files there."""
    stranger = tmp_path / "ext" / "bucket-0" / "data-of-another-table-0.parquet"
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"x")
    _create(catalog, "d.t", f"file://{tmp_path}/ext")
    with pytest.warns(lw.LakewrightWarning, match=r"left alone, as it is not known to be the table's alone"):
        assert not catalog.get_table("d.t").remove_orphan_files(older_than=dt.timedelta(milliseconds=1)).paths
    _upkeep(catalog, "d.t")
    assert stranger.exists()


def test_the_copy_of_a_warehouse_deletes_nothing_that_the_original_names(tmp_path: Path) -> None:
    options = {"warehouse": f"{tmp_path}/wh", "lakewright.durable": "false"}
    catalog = lw.CatalogFactory.create(options)
    catalog.create_database("d")
    _create(catalog, "d.t", f"file://{tmp_path}/ext")
    _write(catalog, "d.t", 1)
    shutil.copytree(tmp_path / "wh", tmp_path / "copy")
    copy = lw.CatalogFactory.create({**options, "warehouse": f"{tmp_path}/copy"})
    _write(catalog, "d.t", 2)
    assert not _remove_orphans(copy, "d.t")
    _upkeep(copy, "d.t")
    assert _ids(catalog, "d.t") == [1, 2]


def test_a_table_that_is_alone_cleans_its_external_paths(catalog: lw.Catalog, tmp_path: Path) -> None:
    """Also after a new name, and after the option came later."""
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS))
    changes = [SchemaChange.set_option(key, value) for key, value in _options(f"file://{tmp_path}/ext").items()]
    catalog.alter_table("d.t", changes)
    _write(catalog, "d.t", 1)
    with catalog.get_table("d.t").new_batch_write_builder().new_write() as write:
        write.write_arrow(pa.table({"id": [2]}, schema=COLUMNS)).prepare_commit()
    catalog.rename_table("d.t", "d.u")
    assert len(_remove_orphans(catalog, "d.u")) == 1
    assert _ids(catalog, "d.u") == [1]
    catalog.drop_table("d.u")
    assert not [path for path in (tmp_path / "ext").rglob("*") if path.is_file()]


def test_neighbours_in_an_object_store(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket()
    catalog = lw.CatalogFactory.create({"warehouse": f"s3://{bucket}/wh", **s3_server.options})
    catalog.create_database("d")
    catalog.create_table("d.victim", lw.Schema.from_pyarrow_schema(COLUMNS))
    for path in (f"s3://{bucket}", f"s3a://{bucket}/", f"s3a://{bucket}/wh", f"s3://{bucket}/wh/d.db/victim"):
        with pytest.raises(lw.InvalidInputError, match=r"data-file.external-paths"):
            _create(catalog, "d.t", path)
    _create(catalog, "d.t", f"s3://{bucket}/ext")
    _create(catalog, "d.u", f"s3a://{bucket}/ext/bucket-0")
    for name in ("d.t", "d.u"):
        _write(catalog, name, 1)
    time.sleep(1.1)  # the store keeps times in seconds
    assert not _remove_orphans(catalog, "d.t")
    catalog.drop_table("d.t")
    assert _ids(catalog, "d.u") == [1]
