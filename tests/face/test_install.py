"""`install()` in a fresh process: a script for pypaimon finds lakewright's names under pypaimon's paths."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def _run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)


def test_every_module_path_resolves_to_names_of_the_face() -> None:
    done = _run("""
        import importlib
        import lakewright.pypaimon as face
        from lakewright.pypaimon.modules import module_names
        face.install()
        face.install()
        for path, names in module_names().items():
            module = importlib.import_module(f"pypaimon.{path}".rstrip("."))
            for name in names:
                assert getattr(module, name) is getattr(face, name), (path, name)
        print("fine")
    """)
    assert done.stdout == "fine\n", done.stderr


def test_a_path_that_is_not_there_is_named() -> None:
    done = _run("""
        import lakewright.pypaimon
        lakewright.pypaimon.install()
        import pypaimon.no.such
    """)
    assert "ModuleNotFoundError: lakewright stands in for pypaimon here and has no module 'pypaimon.no'" in done.stderr


def test_the_real_pypaimon_is_not_mixed_in() -> None:
    done = _run("""
        import sys, types
        sys.modules["pypaimon"] = types.ModuleType("pypaimon")
        import lakewright.pypaimon
        lakewright.pypaimon.install()
    """)
    assert "InvalidInputError: the real pypaimon is imported already" in done.stderr


def test_a_directory_added_to_the_package_is_searched(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("answer = 42")
    done = _run(f"""
        import lakewright.pypaimon
        lakewright.pypaimon.install()
        import pypaimon
        pypaimon.__path__.append({str(tmp_path)!r})
        import pypaimon.own
        print(pypaimon.own.answer)
    """)
    assert done.stdout == "42\n", done.stderr
