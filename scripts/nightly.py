"""Run the larger proofs in parts, and print what is known of all of them.

    make nightly                            every part, about four hours on two cores
    make nightly PART=soak                  one part
    make nightly PART="spark-3.5 lowest"    some
    make nightly PART=list                  the results so far

The result of a part is kept in target/nightly with the commit that it ran on, so that the parts can run one by one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "target" / "nightly"
MINUTES_MAX = 45  # of a part
HERE = ".venv"
PEERS = ".venvs/peers/.made"
RESTS = ("target/rest-server/1.4.2/.made", "target/rest-server/2.0.0/.made")
STORES = ("target/stores/bin/fake-gcs-server", "target/stores/azurite/.made", "target/stores/hdfs/.made")
IN_ONE_PROCESS = "not (spark or ray or peers or s3 or processes or long)"
SPARK_MATRIX = (
    "test_spark_contract.py",
    "test_sql_queries.py",
    "test_sql_changes.py",
    "test_shop_queries.py",
    "test_plain_calls.py",
    "jobs/test_capabilities.py",
    "jobs/test_types.py",
    "datasource/test_change_capture.py",
)
LOWEST = (
    "test_calls.py",
    "test_golden.py",
    "test_keyed_model.py",
    *"spec formats metadata commit write read integrations".split(),
)


@dataclass(frozen=True)
class Part:
    """One part: the files that `make` makes for it, and the runs of pytest that it consists of."""

    about: str
    runs: Sequence[Sequence[str]]
    needs: Sequence[str] = ()
    environment: str = HERE
    launcher: Sequence[str] = ()  # starts Python, in place of that of the environment
    variables: Mapping[str, str] = field(default_factory=dict)  # unless the environment has them


def _python(version: str) -> Part:
    return Part(
        f"the tests of one process on Python {version}",
        [["-n", "auto", "-m", IN_ONE_PROCESS, "--ignore=tests/spark", "--ignore=tests/ray", "--ignore=tests/interop"]],
        launcher=["scripts/python.sh", version],
    )


def _chaos(kinds: Sequence[str], about: str, minutes: float = 25) -> Part:
    """Return the part of some kinds of stores; MINUTES and SEED may be given."""
    return Part(
        f"processes of all roles at once on {about}",
        [["-s", *(f"tests/soak/test_chaos.py::test_nothing_is_lost_and_nothing_twice[{kind}]" for kind in kinds)]],
        variables={"MINUTES": str(minutes)},
    )


def _full(*arguments: str) -> list[str]:
    return ["--hypothesis-profile=nightly", *arguments]


def _spark(version: str) -> Part:
    return Part(
        f"engine contract, SQL and types on PySpark {version}",
        [[f"tests/spark/{name}" for name in SPARK_MATRIX]],
        [f".venvs/spark-{version}/.made"],
        f".venvs/spark-{version}",
    )


PARTS = {
    "core": Part(
        "all tests of one machine at full size",
        [_full("-n", "auto", "--ignore=tests/spark", "--ignore=tests/ray", "--ignore=tests/interop")],
    ),
    "spark": Part("all tests of Spark at full size", [_full("-n", "2", "tests/spark")]),
    "ray": Part("all tests of Ray at full size", [_full("tests/ray")]),
    "peers": Part("pypaimon and pypaimon-rust, all round trips", [_full("tests/interop")], [PEERS]),
    "soak": Part(
        "processes killed at random, verbs stopped at every call, long lives of tables",
        [_full("tests/soak/test_kill.py", "tests/soak/test_row_changes.py", "tests/soak/test_row_races.py")],
    ),
    "long-run": Part(
        "two tables in use with kills: nothing lost, memory and open files flat",
        [["-s", "tests/soak/test_long_run.py"]],
        variables={"LAKEWRIGHT_SOAK_MINUTES": "20"},
    ),
    "upkeep-mix": Part("random operations and upkeep with kills", [["-s", "tests/soak/test_upkeep_mix.py"]]),
    "chaos-disk": _chaos(["disk"], "disks"),
    "chaos-s3": _chaos(["s3"], "an S3 server behind a faulty proxy"),
    "chaos-rest": _chaos(["rest", "rest-1.4.2"], "REST servers, with faults", 12.5),
    "chaos-sql": _chaos(["sqlite", "postgres"], "SQL catalogs, with faults", 12.5),
    "chaos-spark": _chaos(["spark"], "disks, with Spark as one of the writers"),
    "spark-cluster": Part(
        "a Spark cluster on loopback: killed executors, stragglers, tokens that expire",
        [["-s", *(f"tests/soak/test_spark_{name}.py" for name in ("cluster", "tokens", "secrets"))]],
    ),
    "spark-kills": Part(
        "Spark drivers, executors and streams killed",
        [["-s", "tests/soak/test_spark_failures.py", "tests/soak/test_spark_streams.py"]],
    ),
    "spark-kafka": Part(
        "change events through a Kafka broker, with kills",
        [["-s", "tests/soak/test_spark_kafka.py"]],
        [".venvs/spark-4.1/.made", "target/kafka/.made"],
        ".venvs/spark-4.1",
    ),
    **{f"spark-{version}": _spark(version) for version in ("3.5", "4.0", "4.1", "4.2")},
    "spark-connect": Part("a Connect server of its own", [_full("tests/spark/test_connect.py")]),
    "spark-managed": Part(
        "a Connect server that refuses settings", [_full("tests/spark/jobs/test_managed_sessions.py")]
    ),
    "spark-pipelines": Part("a declarative pipeline of Spark over restarts", [["tests/soak/test_spark_pipelines.py"]]),
    "sail": Part(
        "engine contract on Sail, a Connect server without a JVM",
        [["tests/sail"]],
        [".venvs/sail/.made"],
        ".venvs/sail",
    ),
    "ray-2.52": Part("the oldest Ray", [["tests/ray"]], [".venvs/ray-2.52/.made"], ".venvs/ray-2.52"),
    "lance": Part(
        "Lance files", [["tests/formats/test_lance.py", "tests/test_golden.py"]], [".venvs/lance/.made"], ".venvs/lance"
    ),
    "interop-java": Part("Java Paimon reads, appends and maintains", [["tests/interop/java"]], ["target/java/.made"]),
    "interop-java-sql": Part(
        "statements on Paimon's own Spark connector", [["-s", "tests/interop/java_sql"]], [".venvs/java-sql/.made"]
    ),
    "interop-rest": Part("Java's REST servers", [["tests/interop/rest"]], [PEERS, *RESTS]),
    "interop-s3": Part("MinIO", [_full("-s", "tests/interop/s3")], ["target/minio/bin/minio"]),
    "interop-stores": Part("GCS, Azure and HDFS", [_full("-s", "tests/interop/stores")], STORES),
    "interop-delta": Part(
        "the same changes by SQL on Delta Lake",
        [["tests/interop/delta"]],
        [".venvs/spark-4.1/.made", "target/delta/.made"],
        ".venvs/spark-4.1",
    ),
    "lowest": Part(
        "the lowest version of every dependency",
        [["-n", "auto", "-m", IN_ONE_PROCESS, *(f"tests/{name}" for name in LOWEST)]],
        [".venvs/lowest/.made"],
        ".venvs/lowest",
    ),
    **{f"python-{version}": _python(version) for version in ("3.13", "3.14")},
    "extras": Part("each extra of the wheel alone", [["-s", "tests/release/test_extras.py"]], ["dist"]),
    "docs": Part("the site", [["tests/test_site.py", "tests/site"]], ["docs"]),
    "report": Part("the report of a table in a browser", [["tests/report"]], ["target/.chromium"]),
}


@dataclass(frozen=True)
class Result:
    """What one run of a part gave."""

    part: str
    commit: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    result: str  # passed, failed, timed out or not made

    def row(self) -> str:
        """Return the line of the table."""
        tests = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"{self.part:17} {self.commit:13} {tests:45} {self.seconds / 60:6.1f} min  {self.result}"


def run_part(name: str, part: Part) -> Result:
    """Make what the part needs, run it, and keep the result."""
    started = time.monotonic()
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    outcome = "passed"
    RESULTS.mkdir(parents=True, exist_ok=True)
    if part.needs and subprocess.run(["make", "--silent", *part.needs], cwd=ROOT, check=False).returncode:
        outcome = "not made"
    for number, arguments in enumerate(part.runs if outcome == "passed" else ()):
        report = RESULTS / f"{name}-{number}.xml"
        report.unlink(missing_ok=True)
        python = part.launcher or [str(ROOT / part.environment / "bin" / "python")]
        command = [*python, "-m", "pytest", f"--junitxml={report}", *arguments]
        left = MINUTES_MAX * 60 - (time.monotonic() - started)
        ended = _run(command, {**part.variables, **os.environ, "LAKEWRIGHT_TEST_MINUTES": f"{left / 60:.1f}"}, left)
        if ended != "passed":
            outcome = ended
        for key, value in _counts(report).items():
            counts[key] += value
    failed = counts["failures"] + counts["errors"]
    if outcome == "passed" and counts["tests"] == counts["skipped"]:
        outcome = "ran no test"
    passed = counts["tests"] - failed - counts["skipped"]
    seconds = time.monotonic() - started
    result = Result(name, _commit(), passed, failed, counts["skipped"], seconds, outcome)
    (RESULTS / f"{name}.json").write_text(json.dumps(vars(result)))
    return result


def _run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    """Run a command in a process group of its own, which ends with it."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        return "failed" if process.wait(seconds + 60) else "passed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _counts(report: Path) -> dict[str, int]:
    if not report.exists():
        return {"tests": 1, "errors": 1}
    suite = ET.parse(report).getroot().find("testsuite")  # noqa: S314 - our own file
    attributes = {} if suite is None else suite.attrib
    return {key: int(attributes.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")}


def _commit() -> str:
    """Return the short name of the commit, with a plus sign if the work tree differs from it."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def print_table() -> None:
    """Print the last result of each part."""
    for name, part in PARTS.items():
        file = RESULTS / f"{name}.json"
        print(Result(**json.loads(file.read_text())).row() if file.exists() else f"{name:17} never run: {part.about}")


def main(names: Sequence[str]) -> int:
    """Run the named parts, or all; return 1 if one of them failed."""
    unknown = [name for name in names if name not in {*PARTS, "list"}]
    if unknown:
        print(f"unknown parts: {', '.join(unknown)}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    wanted = list(names) or list(PARTS)
    results = []
    for name in wanted:
        if name != "list":
            print(f"\n==== {name}: {PARTS[name].about}", flush=True)
            results.append(run_part(name, PARTS[name]))
    print()
    print_table()
    return int(any(result.result != "passed" for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
