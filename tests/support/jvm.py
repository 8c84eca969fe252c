"""How the tests start Java."""

from __future__ import annotations

from pathlib import Path

import pyspark

# A test ends before code that was compiled with much care has paid for that: this halves the work of a short session.
# A tenth of what is left is the verification of Spark's own classes.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


def home_without_archive(folder: Path) -> Path:
    """Make a home of Spark whose Python processes import PySpark from the installed package.

    A usual home puts an archive of PySpark first on their path, and from an archive every process compiles what it
    imports: twice the time that its start takes otherwise.
    """
    for name in ("bin", "jars", "sbin"):
        (folder / name).symlink_to(Path(pyspark.__file__).parent / name)
    return folder
