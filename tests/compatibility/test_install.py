"""`install()` in a fresh process: a script for pypaimon finds lakewright's names under pypaimon's paths."""

from __future__ import annotations

from pathlib import Path

from support.warm_processes import BARE


def test_a_script_finds_every_name_of_pypaimon_and_modules_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("answer = 42")
    done = BARE.run(
        """
import importlib, sys
import lakewright.pypaimon as face
from lakewright.pypaimon.compat_install import module_names
face.install()
face.install()
for path, names in module_names().items():
    module = importlib.import_module(f"pypaimon.{path}".rstrip("."))
    for name in names:
        assert getattr(module, name) is getattr(face, name), (path, name)
import pypaimon
try:
    import pypaimon.no.such
except ModuleNotFoundError as error:
    print(error)
pypaimon.__path__.append(sys.argv[1])
import pypaimon.own
print(pypaimon.own.answer)
""",
        str(tmp_path),
    )
    missing, answer = done.out.splitlines()
    assert missing.startswith("lakewright stands in for pypaimon here and has no module 'pypaimon.no'; it has: ")
    assert (answer, done.err) == ("42", "")


def test_names_are_not_mixed_with_those_of_the_real_pypaimon() -> None:
    done = BARE.run("""
import sys, types
sys.modules["pypaimon"] = types.ModuleType("pypaimon")
import lakewright.pypaimon
lakewright.pypaimon.install()
""")
    assert "InvalidInputError: the real pypaimon is imported already" in done.err
