r"""Processes forked from a server that has imported what they need, instead of interpreters that start anew.

    done = BARE.run("import sys; print(sys.argv[1])", "word")
    assert (done.code, done.out, done.err) == (0, "word\n", "")

To start Python and import Arrow takes a second of a core, to fork a process that has done so some milliseconds. Each
pytest process has servers of its own: `BARE` has imported numpy and Arrow, for programs that ask what lakewright
imports, `LOADED` most of lakewright too. A server starts with its first process and ends with pytest, because nobody
else holds the other end of its socket. It has no threads of Python and no connections, so that forking is safe.

A process is like one of `python -c`: arguments, streams, directory, environment and `__main__` are its own, and Ctrl-C
raises KeyboardInterrupt. What is proven about the start or the end of an interpreter needs a real one (`subprocess`).
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias

Work: TypeAlias = str | Callable[..., object]  # the text of a program, or a function that can be pickled

_NUMBER_BYTES = 8
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended."""

    code: int  # -9 if signal 9 ended it
    out: str
    err: str


@dataclass(slots=True)
class Running:
    """A process that runs."""

    pid: int
    code: int | None
    _numbers: int  # the end of a pipe that the exit code will come through
    _directory: Path

    def is_running(self, seconds: float = 0) -> bool:
        """Wait for the end of the process, and return True if it still runs then."""
        if self.code is None and select.select([self._numbers], [], [], seconds)[0]:
            self.code = _read_number(self._numbers)
        return self.code is None

    def wait(self, seconds: float = _PATIENCE_SECONDS) -> Ended:
        """Wait until the process has ended."""
        still_runs = self.is_running(seconds)
        out, err = ((self._directory / name).read_text() for name in ("out", "err"))
        assert not still_runs, f"a process runs for more than {seconds} s:\n{out}\n{err}"
        assert self.code is not None
        return Ended(self.code, out, err)

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.is_running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class Server:
    """Forks processes from one that has imported some modules."""

    preload: Sequence[str]
    _control: socket.socket | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @contextmanager
    def running(
        self,
        work: Work,
        *args: object,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Iterator[Running]:
        """Run a program with words as `sys.argv[1:]`, or a function with arguments, until the block is left."""
        with tempfile.TemporaryDirectory(prefix="process-") as made:
            place = Path(made)
            (place / "in").write_bytes(stdin)
            (place / "out").touch()
            (place / "err").touch()
            variables = {**os.environ, **(environment or {})}
            (place / "request").write_bytes(pickle.dumps((variables, str(directory or Path.cwd()))))
            (place / "work").write_bytes(pickle.dumps((work, args)))
            reader, writer = os.pipe()
            try:
                with self._lock:
                    socket.send_fds(self._connected(), [os.fsencode(place)], [writer])
                os.close(writer)
                process = Running(_read_number(reader), None, reader, place)
                try:
                    yield process
                finally:
                    process.signal(signal.SIGKILL)
                    process.is_running(_PATIENCE_SECONDS)
            finally:
                os.close(reader)

    def run(
        self,
        work: Work,
        *args: object,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> Ended:
        """Run a process to its end; see `running`."""
        with self.running(work, *args, stdin=stdin, environment=environment, directory=directory) as process:
            return process.wait()

    def run_together(
        self, function: Callable[..., object], calls: Sequence[Sequence[object]], seconds: float = _PATIENCE_SECONDS
    ) -> None:
        """Run a function in one process for each call, all at the same time; each must succeed."""
        with ExitStack() as stack:
            processes = [stack.enter_context(self.running(function, *args)) for args in calls]
            ended = [process.wait(seconds) for process in processes]
        assert [one.code for one in ended] == [0] * len(calls), "\n".join(one.err for one in ended)

    def _connected(self) -> socket.socket:
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            code = f"from {__name__} import serve; serve({theirs.fileno()}, {list(self.preload)!r})"
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", code],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            ).returncode = 0  # it ends with this process, and nobody waits for it
            theirs.close()
            self._control = ours
        return self._control


BARE = Server(["numpy", "pyarrow"])
LOADED = Server(
    [
        "pytest",
        "lakewright.public",
        "lakewright.cli.program",
        "lakewright.catalog.sql_catalog",
        "contract.append_history",
        "psycopg",
    ]
)


# ---- in the server ---------------------------------------------------------------------------------------------------


def serve(control_number: int, preload: Sequence[str]) -> None:
    """Fork a process for each request, until the other end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for pytest
    for name in preload:
        with suppress(ModuleNotFoundError):  # an extra that is not installed
            importlib.import_module(name)
    assert threading.active_count() == 1
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes between
    control = socket.socket(fileno=control_number)
    while True:
        place, received, _, _ = socket.recv_fds(control, 4096, 1)
        if not place:
            return
        (numbers,) = received
        if os.fork() == 0:
            control.close()
            _fork_and_wait(Path(os.fsdecode(place)), numbers)
        os.close(numbers)


def _fork_and_wait(place: Path, numbers: int) -> NoReturn:
    """Be the parent of the process of a request: send its id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if process == 0:
        os.close(numbers)
        _become(place)
    _write_number(numbers, process)
    _, status = os.waitpid(process, 0)
    with suppress(BrokenPipeError):
        _write_number(numbers, os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(place: Path) -> NoReturn:
    """Be the process of a request."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        variables, directory = pickle.loads((place / "request").read_bytes())  # noqa: S301 - it is ours
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(variables)
        for number, name, mode in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            opened = os.open(place / name, mode)
            os.dup2(opened, number)
            os.close(opened)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - they stay open
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
        _do((place / "work").read_bytes())
        code = 0
    except SystemExit as ended:
        code = _exit_code(ended)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _do(request: bytes) -> None:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    work, args = pickle.loads(request)  # noqa: S301 - it is ours
    if not isinstance(work, str):
        work(*args)
        return
    sys.argv = ["-c", *args]
    exec(compile(work, "<program>", "exec"), main.__dict__)  # noqa: S102 - the text is the test's


def _exit_code(ended: SystemExit) -> int:
    if isinstance(ended.code, int):
        return ended.code
    if ended.code is not None:
        sys.stderr.write(f"{ended.code}\n")
    return 0 if ended.code is None else 1


def _write_number(file: int, number: int) -> None:
    os.write(file, number.to_bytes(_NUMBER_BYTES, "little", signed=True))


def _read_number(file: int) -> int:
    """Return the next number of a pipe."""
    found = os.read(file, _NUMBER_BYTES)
    assert len(found) == _NUMBER_BYTES, "the server of the processes has ended"
    return int.from_bytes(found, "little", signed=True)
