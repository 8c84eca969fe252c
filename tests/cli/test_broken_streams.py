"""Where the output of a command goes: files, links, devices, closed streams, early readers; and completion."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from support.command_tables import code_of, command_warehouse
from support.warm_processes import BARE, LOADED

# The command, with stdout where the first word says.
COMMAND = """
import os, sys
from lakewright.cli.main import main
os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY), 1)
main()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEWRIGHT_WAREHOUSE", command_warehouse(tmp_path))
    return tmp_path


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["read", "d.t", "--format", "csv"], ["sql", "SELECT 1 AS n", "--format", "csv"], ["report", "d.t", "--force"]],
)
def test_a_pipe_is_written_to_and_not_replaced(place: Path, words: list[str]) -> None:
    """As with /dev/null: a file in place of a device would break the machine."""
    pipe = place / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    try:
        assert code_of([*words, "-o", str(pipe), "--quiet"]) == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert reader.communicate(timeout=30)[0]
    finally:
        reader.kill()
    assert [one.name for one in place.iterdir() if "pipe" in one.name] == ["pipe"]


def test_a_link_stays_one(place: Path) -> None:
    (place / "far").mkdir()
    (place / "rows.csv").symlink_to("far/rows.csv")
    assert code_of(["read", "d.t", "-o", "rows.csv", "--quiet"]) == 0
    assert (place / "rows.csv").is_symlink()
    assert (place / "far/rows.csv").read_text().startswith("id,n")


def test_a_minus_is_stdout(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(["read", "d.t", "--select", "id", "--limit", "1", "--format", "csv", "-o", "-"]) == 0
    assert capsys.readouterr() == ("id\r\n0\r\n", "")
    assert not (place / "-").exists()


def test_a_statement_that_fails_leaves_the_file(place: Path) -> None:
    (place / "rows.csv").write_text("before")
    assert code_of(["sql", "SELECT nix", "-o", "rows.csv"]) == 1
    assert (place / "rows.csv").read_text() == "before"


# ---- processes -------------------------------------------------------------------------------------------------------


_COMMANDS = {"read d.t": 0, "rollback d.t 1": 1, "raed d.t": 2}
_STREAMS = ("1>&-", "2>&-", "0<&-")


@pytest.mark.processes
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("words", "closed"),
    [
        pytest.param(words, closed, marks=[] if number == at else pytest.mark.nightly)
        for number, words in enumerate(_COMMANDS)
        for at, closed in enumerate(_STREAMS)
    ],
)
def test_a_command_runs_with_a_stream_closed(closed: str, words: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m lakewright {words} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "defect" in done.stderr, "Traceback" in done.stderr) == (_COMMANDS[words], False, False)


@pytest.mark.processes
def test_a_full_disk_under_stdout_is_an_error(place: Path) -> None:
    done = LOADED.run(COMMAND, "/dev/full", "tables")
    assert done.code == 1
    assert done.err == "lakewright: the output: No space left on device; make room, or name another place\n"
    assert place.exists()


@pytest.mark.processes
def test_a_reader_that_stops_early(place: Path) -> None:
    """Threads of Arrow that still work at the end of the process do not abort it."""
    catalog = lw.CatalogFactory.create({"warehouse": str(place / "w")})
    ids = np.arange(600_000)
    lw.create_table_from(pa.table({"id": ids, "x": ids / 7, "y": ids % 97}), "d.long", catalog=catalog)
    command = [sys.executable, "-m", "lakewright", "read", "d.long", "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert program.stdout.read(4) == b"id,x"
        program.stdout.close()
        assert (program.wait(60), program.stderr.read()) == (0, b"")


@pytest.mark.processes
def test_an_interrupt_while_modules_are_loaded() -> None:
    done = BARE.run(
        "import sys; import lakewright.cli.main as program\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'lakewright.cli.program': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder()); sys.argv = ['lakewright', 'tables']\n"
        "sys.exit(program.main())"
    )
    assert (done.code, done.err) == (130, "lakewright: interrupted\n")


@pytest.mark.processes
def test_the_interpreter_is_not_taken_down() -> None:
    """Threads of Arrow would meet an interpreter that is gone; what packages registered for the end is done."""
    program = (
        "import atexit, os, sys; from lakewright.cli.main import main\n"
        "class Last:\n"
        "    def __del__(self): os.write(2, b'taken down')\n"
        "last = Last(); atexit.register(os.write, 2, b'at exit')\n"
        "sys.argv = ['lakewright', '--version']; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "at exit")
    assert done.stdout.startswith("lakewright ")


# ---- completion ------------------------------------------------------------------------------------------------------


def _completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, at: int) -> list[str]:
    for name, value in {"COMP_WORDS": words, "COMP_CWORD": str(at), "_LAKEWRIGHT_COMPLETE": "bash_complete"}.items():
        monkeypatch.setenv(name, value)
    code_of([])
    return capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "at", "found"),
    [
        ("lakewright compact d.", 2, ["plain,d.empty", "plain,d.t"]),
        ("lakewright ingest x.csv --table d.t", 4, ["plain,d.t"]),
        ("lakewright db drop ", 3, ["plain,d"]),
        ("lakewright tables ", 2, ["plain,d"]),
        ("lakewright read d.t -o ro", 4, ["file,ro"]),
        ("lakewright tables -w wa", 3, ["dir,wa"]),
        ("lakewright tables -c pr", 3, ["plain,prod"]),
        ("lakewright table rename d.", 3, ["plain,d.empty", "plain,d.t"]),
        ("lakewright tag nix d.t ", 4, []),
    ],
)
@pytest.mark.usefixtures("place")
def test_what_a_shell_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, at: int, found: list[str]
) -> None:
    monkeypatch.setenv("LAKEWRIGHT_CATALOGS__PROD__WAREHOUSE", "/nowhere")
    offered = _completed(monkeypatch, capsys, words, at)
    assert [one for one in offered if one in found] == found
    assert found or "Traceback" not in "".join(offered)


@pytest.mark.usefixtures("place")
def test_a_word_that_is_no_command_is_no_error_of_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ("lakewright nix ", "lakewright table nix "):
        _completed(monkeypatch, capsys, words, len(words.split()))
        assert capsys.readouterr().err == ""
