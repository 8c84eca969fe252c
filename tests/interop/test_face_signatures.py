"""Every public name, method and argument of pypaimon's modules is in the face, or is listed as absent with a reason.

`face_absences.txt` lists what is absent: one name a line under the reason for it. A name that is there by now must be
removed from the list. `python tests/interop/test_face_signatures.py` prints what is missing.
"""

from __future__ import annotations

import inspect
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakewright.pypaimon as face
from lakewright.pypaimon.compat_install import module_names
from support.peers import PYTHON

HERE = Path(__file__).parent
# Modules that the face has as rooms of its own, or that need packages which the peers' environment has not.
SKIPPED = {"ray", "read.datasource.torch_dataset", "write.ray_datasink"}
# Values that programs make themselves. Everything else comes from a catalog, a table or a builder.
MADE_BY_HAND = {
    *("ArrayType", "AtomicType", "ConfigOption", "CoreOptions", "DataField", "Identifier", "MapType", "Move"),
    *("MultisetType", "Options", "Predicate", "PredicateBuilder", "RowType", "Schema", "VectorType"),
}
UNTOLD = {"T", "TYPE_CHECKING"}  # what typing left behind


def _missing() -> Iterator[str]:
    """Yield what only the peer has: `module: name`, `Class.method` or `Class.method(argument)`."""
    paths = sorted(set(module_names()) - SKIPPED)
    done = subprocess.run(
        [str(PYTHON), str(HERE / "face_names.py"), *paths], capture_output=True, text=True, check=True
    )
    for path, names in json.loads(done.stdout).items():
        for name, found in names.items():
            if name in UNTOLD:
                continue
            if not hasattr(face, name):
                yield f"{path}: {name}"
            elif "members" in found:
                yield from _missing_members(name, found["members"])
            else:
                yield from _missing_arguments(name, getattr(face, name), found["arguments"])


def _missing_members(kind: str, members: dict[str, list[str] | None]) -> Iterator[str]:
    ours: Any = getattr(face, kind)
    for name, arguments in members.items():
        annotated = any(name in getattr(base, "__annotations__", {}) for base in getattr(ours, "__mro__", ()))
        if name != "__init__" and not hasattr(ours, name) and not annotated:
            yield f"{kind}.{name}"
        elif name == "__init__":
            yield from _missing_arguments(f"{kind}.{name}", ours, arguments if kind in MADE_BY_HAND else None)
        elif hasattr(ours, name):
            yield from _missing_arguments(f"{kind}.{name}", getattr(ours, name), arguments)


def _missing_arguments(name: str, function: object, arguments: list[str] | None) -> Iterator[str]:
    if arguments is None or not callable(function):
        return
    try:
        ours = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in ours.values()):
        return
    yield from (f"{name}({argument})" for argument in arguments if argument not in ours)


def _absent() -> set[str]:
    lines = (HERE / "face_absences.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_the_face_has_every_public_name_of_pypaimon_or_says_why_not() -> None:
    missing, absent = set(_missing()), _absent()
    assert sorted(missing - absent) == [], "new names of pypaimon, or names that the face has lost"
    assert sorted(absent - missing) == [], "these are there by now: remove them from face_absences.txt"


if __name__ == "__main__":
    for line in sorted(set(_missing())):
        print(line)
