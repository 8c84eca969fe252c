"""The doctor: what it finds in good and in bad places, what it says to do, and that it leaves nothing behind."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.cli.program import run
from lakewright.diagnosis import (
    EXTRAS,
    PYTHON_MIN,
    REQUIRED,
    SCRATCH,
    Diagnosis,
    check_packages,
    check_python,
    check_storage,
)
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import FileInfo
from support.s3 import S3Server

STEPS = ["list", "write", "create-once", "read", "clock", "delete"]
ROOT = Path(__file__).parents[2]


def _storage_checks(found: Diagnosis) -> dict[str, str]:
    prefix = "storage."
    return {check.name.removeprefix(prefix): check.status for check in found.checks if check.name.startswith(prefix)}


def test_a_good_warehouse_is_healthy_and_left_as_it_was(tmp_path: Path) -> None:
    said: list[str] = []
    found = lw.diagnose(tmp_path, say=said.append)
    assert found.is_healthy
    assert _storage_checks(found) == dict.fromkeys(STEPS, "ok")
    assert list(tmp_path.rglob("*")) == []
    assert len(said) == 3
    assert "is healthy" in found._repr_html_()


def test_an_object_store_is_healthy_and_left_as_it_was(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket()
    found = lw.diagnose({"warehouse": f"s3://{bucket}/wh", **s3_server.options})
    assert _storage_checks(found) == dict.fromkeys(STEPS, "ok")
    assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@pytest.mark.parametrize("is_there", [False, True], ids=["no server", "no bucket"])
def test_a_missing_store_is_reported_without_its_keys_and_not_as_a_lack_of_rights(
    s3_server: S3Server, *, is_there: bool
) -> None:
    keys = {"s3.access-key": "id-hush", "s3.secret-key": "key-hush"}
    absent = {**s3_server.options, **keys, "s3.endpoint": "http://127.0.0.1:9"}
    options = s3_server.options if is_there else absent
    found = lw.diagnose({"warehouse": "s3://no-such-bucket-here/wh", **options})
    assert _storage_checks(found) == {"list": "failed", **dict.fromkeys(STEPS[1:], "skipped")}
    remedy = next(check.remedy for check in found.checks if check.name == "storage.list")
    assert not found.is_healthy
    assert "hush" not in str(found)
    assert "grant" not in remedy
    assert "endpoint" in remedy


class _Bad(LocalStorage):
    """A storage that does one thing wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__(durable=False)
        object.__setattr__(self, "wrong", wrong)

    def create(self, path: str, data: bytes) -> bool:
        if self.wrong == "write":  # type: ignore[attr-defined]
            raise PermissionError("denied")
        if self.wrong == "create-once":  # type: ignore[attr-defined]
            self.replace(path, data)
            return True
        return super().create(path, data)

    def read(self, path: str) -> bytes:
        if self.wrong == "read":  # type: ignore[attr-defined]
            raise PermissionError("denied")
        return super().read(path)

    def delete(self, path: str, *, durable: bool = False) -> None:
        if self.wrong == "delete":  # type: ignore[attr-defined]
            raise PermissionError("denied")
        super().delete(path, durable=durable)

    def list_directories(self, directory: str) -> Iterator[str]:
        if self.wrong == "list":  # type: ignore[attr-defined]
            raise PermissionError("denied")
        return super().list_directories(directory)

    def list(self, directory: str) -> Iterator[FileInfo]:
        later = {"clock": 60_000, "clock failed": -3_600_000}.get(self.wrong, 0)  # type: ignore[attr-defined]
        for file in super().list(directory):
            yield FileInfo(file.path, file.size, file.modified_millis + later)


@pytest.mark.parametrize("wrong", STEPS)
def test_each_step_that_fails_is_named_with_what_to_do(tmp_path: Path, wrong: str) -> None:
    checks = {check.name: check for check in check_storage(_Bad(wrong), str(tmp_path))}
    assert list(checks) == [f"storage.{step}" for step in STEPS]
    bad = checks[f"storage.{wrong}"]
    assert bad.status == ("warning" if wrong == "clock" else "failed")
    assert bad.remedy
    if wrong == "delete":
        assert str(next(tmp_path.iterdir())) in bad.remedy
    elif wrong != "write":
        assert list(tmp_path.iterdir()) == []
    if wrong == "write":
        assert {checks[f"storage.{step}"].status for step in STEPS[2:]} == {"skipped"}


def test_a_clock_that_is_far_off_is_a_failure(tmp_path: Path) -> None:
    checks = {check.name: check for check in check_storage(_Bad("clock failed"), str(tmp_path))}
    assert checks["storage.clock"].status == "failed"
    assert "behind" in checks["storage.clock"].found


def test_a_directory_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    found = lw.diagnose(tmp_path / "typo")
    assert not found.is_healthy
    assert _storage_checks(found) == {"list": "failed", **dict.fromkeys(STEPS[1:], "skipped")}
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_others_have_is_never_touched(tmp_path: Path) -> None:
    taken = tmp_path / f"{SCRATCH}-x" / "once"
    taken.parent.mkdir()
    taken.write_bytes(b"mine")
    checks = {check.name: check for check in check_storage(LocalStorage(), str(tmp_path), scratch="x")}
    assert checks["storage.write"].status == "failed"
    assert taken.read_bytes() == b"mine"


def test_the_oldest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name: f">={oldest}" for name, oldest in REQUIRED.items()} == dict(map(_parts, project["dependencies"]))
    assert project["requires-python"] == f">={'.'.join(map(str, PYTHON_MIN))}"
    for extra, packages in EXTRAS.items():
        declared = dict(_parts(text) for text in project["optional-dependencies"][extra] if "lakewright[" not in text)
        assert packages.keys() <= declared.keys()
        assert all(f">={oldest}" in declared[name] for name, oldest in packages.items()), extra


def _parts(requirement: str) -> tuple[str, str]:
    name = re.match(r"[\w-]+", requirement)
    assert name is not None
    return name.group(), re.sub(r"^[\w-]+(\[[^]]*\])?", "", requirement)


@pytest.mark.parametrize(
    ("version", "status"), [("18.1", "ok"), ("17.0", "failed"), (None, "failed"), ("100.0.dev1", "ok")]
)
def test_packages_are_told_by_their_versions(version: str | None, status: str) -> None:
    installed: Callable[[str], str | None] = {"pyarrow": version}.get
    checks = {check.name: check for check in check_packages(installed)}
    assert checks["package.pyarrow"].status == status
    assert (checks["package.pyarrow"].remedy == "") == (status == "ok")
    assert checks["extra.polars"].status == "skipped"


def test_the_packages_of_an_extra_are_one_check() -> None:
    """Two checks of one name would hide each other where checks are found by their names."""
    new = {package: "99" for packages in EXTRAS.values() for package in packages}
    old: Callable[[str], str | None] = {**new, "sqlglot": "1.0"}.get
    checks = [check for check in check_packages(old) if check.name.startswith("extra.")]
    assert len({check.name for check in checks}) == len(checks) == len(EXTRAS)
    by_name = {check.name: check for check in checks}
    assert (by_name["extra.sql"].status, by_name["extra.sql"].found) == ("failed", "sqlglot 1.0 is older than 30")
    assert by_name["extra.spark"].found == "pyspark 99, pandas 99"
    assert "sqlglot 1.0" in Diagnosis(tuple(checks))._repr_html_()


def test_every_extra_of_the_project_is_looked_at() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert declared.keys() - {"dev"} == EXTRAS.keys()


def test_an_old_python_fails() -> None:
    assert check_python((3, 9, 1)).status == "failed"


def test_a_catalog_that_does_not_answer_is_a_check(tmp_path: Path) -> None:
    found = lw.diagnose({"metastore": "nothing", "warehouse": str(tmp_path)})
    assert [check.status for check in found.checks if check.name == "catalog"] == ["failed"]


def test_without_a_warehouse_the_storage_is_skipped() -> None:
    found = {check.name: check.status for check in lw.diagnose().checks}
    assert (found["catalog"], found["spark.workers"]) == ("skipped", "skipped")


def test_a_session_that_does_not_start_is_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise lw.UnsupportedError("no Java was found: pip install 'lakewright[spark-jre]'")

    monkeypatch.setattr("lakewright.spark.spark_session.running", fails)
    assert run(["doctor", "--warehouse", str(tmp_path), "--spark", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["storage.read"]["status"] == "ok"
    assert checks["spark.workers"]["status"] == "failed"
    assert "no Java was found" in checks["spark.workers"]["found"]


def test_the_command_writes_json_and_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    warehouse = tmp_path / "wh"
    warehouse.mkdir()
    assert run(["doctor", "--warehouse", str(warehouse), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["is_healthy"] is True
    assert ("storage.read", "ok") in {(check["name"], check["status"]) for check in shown["checks"]}
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    assert run(["doctor", "--warehouse", str(blocked)]) == 1
    text = capsys.readouterr().out
    assert "FAILED" in text
    assert re.search(r"checks? failed", text)
