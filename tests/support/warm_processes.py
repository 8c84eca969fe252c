r"""Processes for short programs, forked from one server that has imported numpy and Arrow.

    done = warm_processes.run("import sys; print(sys.argv[1])", "word")
    assert (done.code, done.out, done.err) == (0, "word\n", "")

Each pytest process has a server of its own, started by the first program and ended with pytest. A program starts in
about 10 ms instead of the time that Python and Arrow take, on a busy machine seconds. It is like one of `python -c`:
streams, arguments, directory and environment are its own, `sys.modules` holds nothing of the tests or of lakewright.
What is proven about the start or the end of an interpreter itself needs a real one, from `subprocess`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")  # the server has no threads in which a lock could be held
_CONTEXT.set_forkserver_preload(["numpy", "pyarrow"])


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that has ended."""

    code: int  # -9 if signal 9 ended it
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs."""

    process: ForkServerProcess
    directory: Path

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, seconds: float = 120) -> Ended:
        """Wait until the program has ended."""
        self.process.join(seconds)
        out, err = ((self.directory / name).read_text() for name in ("out", "err"))
        assert self.process.exitcode is not None, f"a program runs for more than {seconds} s:\n{out}\n{err}"
        return Ended(self.process.exitcode, out, err)


@contextmanager
def running(
    program: str,
    *words: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Iterator[Running]:
    """Run a program until the block is left, with these words as `sys.argv[1:]` and more variables."""
    with tempfile.TemporaryDirectory(prefix="program-") as place:
        (Path(place) / "in").write_bytes(stdin)
        variables = {**os.environ, **(environment or {})}
        given = (program, words, Path(place), variables, str(directory or Path.cwd()))
        process = _CONTEXT.Process(target=_run, args=given)
        process.start()
        try:
            yield Running(process, Path(place))
        finally:
            process.kill()
            process.join()
            process.close()


def run(
    program: str,
    *words: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Ended:
    """Run a program to its end; see `running`."""
    with running(program, *words, stdin=stdin, environment=environment, directory=directory) as started:
        return started.wait()


def _run(program: str, words: tuple[str, ...], place: Path, variables: dict[str, str], directory: str) -> None:
    """Become the process of a program."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    for number, name, mode in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
        opened = os.open(place / name, mode | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - they stay open
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = ["-c", *words]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    try:
        exec(compile(program, "<program>", "exec"), main.__dict__)  # noqa: S102 - the text is the test's
    except Exception:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        raise SystemExit(1) from None
