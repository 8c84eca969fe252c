"""The table of PySpark releases in docs/spark/cluster.md: the features of `capabilities` in, markdown out.

`python -m support.versions_page` in tests/ writes it, and a test compares it with what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lakewright.spark.spark_features import Feature, java_versions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "spark" / "cluster.md"
BEGIN = "<!-- written by tests/support/versions_page.py: begin -->\n"
END = "<!-- written by tests/support/versions_page.py: end -->\n"
# The newest one is that of the development environment, the others have a part of `make nightly` each.
RELEASES = ("3.5", "4.0", "4.1", "4.2", "4.3")


def with_versions_table(page: str) -> str:
    """Return the page with the table between its two marks written anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + "".join(f"{line}\n" for line in _table(RELEASES)) + end + after


def _table(names: Sequence[str]) -> Iterator[str]:
    yield f"| | {' | '.join(names)} | where it is missing |"
    yield f"| --- |{' --- |' * len(names)} --- |"
    for feature in sorted(Feature, key=lambda one: one.is_replaced):
        missing = "another way" if feature.is_replaced else "no"
        cells = ["yes" if _number(name) >= _number(feature.since) else missing for name in names]
        yield f"| {feature.what} | {' | '.join(cells)} | {feature.instead} |"
    javas = [java_versions(name) for name in names]
    spans = [f"{oldest}+" if newest is None else f"{oldest} to {newest}" for oldest, newest in javas]
    yield f"| Java | {' | '.join(spans)} | `local_session` says which one to install |"


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


if __name__ == "__main__":
    PAGE.write_text(with_versions_table(PAGE.read_text()))
