"""`doctor`: whether this environment, a storage and the workers of Spark have what tables need, and what to do."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict

from lakewright.cli.base.command import Arguments, Command, flag, option
from lakewright.cli.base.output import Output
from lakewright.cli.base.place import catalog_of
from lakewright.diagnosis.checks import Check, Diagnosis
from lakewright.diagnosis.run import diagnose
from lakewright.errors import counted

UNHEALTHY = 1
_MARKS = {"ok": "ok     ", "warning": "WARNING", "failed": "FAILED ", "skipped": "skipped"}


def _run(args: Arguments, output: Output) -> int:
    with output.progress("looking at this environment") as say:
        found = _with_spark(args, say) if _wants_spark(args) else diagnose(catalog_of(args), say=say)
    checks = [asdict(check) for check in found.checks]
    output.result({"is_healthy": found.is_healthy, "checks": checks}, _text(found, quiet=output.quiet))
    return 0 if found.is_healthy else UNHEALTHY


def _wants_spark(args: Arguments) -> bool:
    return bool(args.spark or args.master or args.remote)


def _with_spark(args: Arguments, say: object) -> Diagnosis:
    from lakewright.spark.jobs.launch import running  # noqa: PLC0415 - a door

    with ExitStack() as stack:
        try:
            spark = stack.enter_context(running("lakewright doctor", args.master, args.remote))
        except Exception as error:  # noqa: BLE001 - whatever a session raises at its start is what the check found
            found = diagnose(catalog_of(args), say=say)  # type: ignore[arg-type] # as below
            others = (check for check in found.checks if check.name != "spark.workers")
            return Diagnosis((*others, _no_session(error)))
        return diagnose(catalog_of(args), spark=spark, say=say)  # type: ignore[arg-type] # a function of the output


def _no_session(error: Exception) -> Check:
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    remedy = "see the check of java; a cluster is named by --master, a Spark Connect server by --remote"
    return Check("spark.workers", "failed", f"no session started: {type(error).__name__}: {first[:300]}", remedy)


def _text(found: Diagnosis, *, quiet: bool) -> str:
    lines = []
    for check in found.checks:
        if quiet and check.status in ("ok", "skipped"):
            continue
        lines.append(f"{_MARKS[check.status]} {check.name}: {check.found}")
        if check.remedy:
            lines.append(f"        {check.remedy}")
    failed = sum(check.status == "failed" for check in found.checks)
    warned = sum(check.status == "warning" for check in found.checks)
    ending = f", {counted(warned, 'warning')}" if warned else ""
    verdict = f"all is well{ending}" if found.is_healthy else f"{counted(failed, 'check')} failed{ending}"
    return "\n".join([*lines, verdict])


COMMANDS = (
    Command(
        "doctor",
        _run,
        flag("--spark", help="also start Spark here and ask its workers"),
        option("--master", metavar="URL", help="ask the workers of this Spark master"),
        option("--remote", metavar="URL", help="ask the workers of this Spark Connect server, such as sc://host"),
        more="With a warehouse or a catalog, its storage is tried with a scratch file. 1 is returned if a check fails.",
        exclusive=[("--master", "--remote")],
    ),
)
