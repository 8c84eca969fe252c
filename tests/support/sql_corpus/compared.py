"""Our answers beside those that are expected: equal, refused by name with the reason, or different; and the counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from support.sql_corpus.cases import Case
from support.sql_corpus.running import Answer, Places

Verdict = Literal["equal", "refused", "differs"]


def expectation(case: Case, java: Mapping[str, Answer], places: Places) -> Answer:
    """Return what is expected of a case: what Java answered, or, where it cannot run it, what the corpus says."""
    if case.error:
        return {"error": "refused"}
    if not case.java:
        return java[case.name]
    expected = json.loads(places.filled(json.dumps(case.expected), case.database))
    answer: Answer = {}
    if case.columns:
        answer["columns"] = list(case.columns)
    if "rows" in expected:
        described = (case.then or (case.statement,))[-1].startswith("DESC")
        rows = expected["rows"]
        answer["after" if case.then else "result"] = rows if described else sorted(rows, key=json.dumps)
    if "result" in expected:
        answer["result"] = expected["result"]
    return answer


def verdict(case: Case, expected: Answer, ours: Answer) -> tuple[Verdict, str]:
    """Return how our answer compares with the expected one, and what was refused or differs."""
    error = next((ours[part] for part in ("setup", "error", "then") if part in ours), None)
    if "error" in expected:
        if error is None:
            return ("equal", "") if case.spark else ("differs", f"an error is expected, ours answers {ours['result']}")
        typed = "setup" not in ours and ("typed" in ours or "spark" in ours)
        return ("equal", "") if typed else ("differs", error)
    if error is not None:
        named = "unsupported" in ours or (case.refused and case.refused in error and {"typed", "spark"} & set(ours))
        return ("refused" if named else "differs"), error
    for part in ("columns", "result", "after"):
        if part in expected and _compares(case, part, expected[part]) and not _same(ours.get(part), expected[part]):
            return "differs", f"{part}: expected {expected[part]}, ours {ours.get(part)}"
    return "equal", ""


def _compares(case: Case, part: str, expected: object) -> bool:
    if part == "columns" and case.columns:
        return expected == list(case.columns) or not case.java
    if part == "after":
        return True
    if case.ours or (case.then and not case.both):
        return False
    return part == "columns" or not case.skip_rows


def _same(ours: Any, expected: Any) -> bool:  # noqa: ANN401 values of every type
    if isinstance(ours, float) and isinstance(expected, float):
        return ours == expected or abs(ours - expected) <= 1e-9 * max(abs(ours), abs(expected))
    if isinstance(ours, list) and isinstance(expected, list):
        return len(ours) == len(expected) and all(map(_same, ours, expected))
    return type(ours) is type(expected) and bool(ours == expected)


def counts(rows: Iterable[tuple[Case, bool, Mapping[str, Verdict]]], engines: list[str]) -> str:
    """Return a table of counts by family: cases, those compared with Java, how ours compare on every engine."""
    cases: Counter[str] = Counter()
    java: Counter[str] = Counter()
    ours: Counter[tuple[str, str, str]] = Counter()
    for case, java_runs, verdicts in rows:
        for family in (case.family, "all"):
            cases[family] += 1
            java[family] += java_runs
            for engine, what in verdicts.items():
                ours[family, engine, what] += 1
    heads = [f"{engine}: {what}" for engine in engines for what in ("equal", "refused", "differs")]
    lines = [
        " | ".join(["| statements", "cases", "compared with Java 0.9.0", *heads]) + " |",
        "|---" * (3 + len(heads)) + "|",
    ]
    for family, number in cases.items():
        found = [str(ours[family, engine, what]) for engine in engines for what in ("equal", "refused", "differs")]
        lines.append(" | ".join([f"| {family}", str(number), str(java[family]), *found]) + " |")
    return "\n".join(
        [
            *lines[:2],
            *[line for line in lines[2:] if not line.startswith("| all")],
            *[line for line in lines[2:] if line.startswith("| all")],
        ]
    )
