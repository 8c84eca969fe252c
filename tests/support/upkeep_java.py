"""The end of a mix as Java reads it: the files of a table in memory in, rows of its branches and tags compared."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from support.golden import in_order
from support.java import Java
from support.upkeep_book import MAIN
from support.upkeep_mix import Mix


def check_with_java(java: Java, mix: Mix, place: Path) -> int:
    """Copy the table to a directory, and compare the rows of every branch and tag; return how many were compared."""
    inner = f"{mix.memory.root}/warehouse/"
    for path, data in mix.memory.image().files.items():
        target = place / path.removeprefix(inner)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    compared = 0
    for branch, line in mix.lines.items():
        name = "d.t" if branch == MAIN else f"d.t$branch_{branch}"
        if line.snapshots:
            _compare(java.read(place, name), mix.state(branch).seen_with(line.columns), branch)
            compared += 1
        for tag, (_, key) in line.tags.items() if branch == MAIN else ():  # Java looks for tags in the main branch only
            state = mix.states[key]
            found = java.read(place, name, **{"scan.tag-name": tag})
            _compare(found, state.seen_with(state.columns), f"{branch}: tag {tag}")
            compared += 1
    return compared


def _compare(found: list[object], wanted: pl.DataFrame, what: str) -> None:
    assert in_order(found) == in_order(map(list, wanted.rows())), f"Java reads other rows of {what}"
