"""`lakewright` for sessions in a shell: one process has it imported, and forks for each command.

`serving` puts a program of that name into a directory. It hands its arguments, directory, environment and streams to
the process, and ends with the exit code of the command; starting it takes milliseconds in place of seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_REQUEST_BYTES_MAX = 1 << 20


@contextmanager
def serving(tools: Path) -> Iterator[None]:
    """Put the program `lakewright` into a directory, and run its process until the block is left."""
    program = tools / "lakewright"
    # The path of a socket is limited to some hundred characters, and that of a test may be longer.
    with tempfile.TemporaryDirectory() as place:
        address = f"{place}/socket"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{__file__}" call "{address}" "$@"\n')
        program.chmod(0o755)
        # It says on stdout that it listens, and ends when stdin does: also where this process is killed.
        command = [sys.executable, __file__, "serve", address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield


def _serve(address: str) -> None:
    lakewright = importlib.import_module("lakewright")
    for name in lakewright.__all__:  # they are loaded when they are first used
        getattr(lakewright, name)
    commands = importlib.import_module("lakewright.cli")
    for module in pkgutil.walk_packages(commands.__path__, "lakewright.cli."):
        importlib.import_module(module.name)
    main = importlib.import_module("lakewright.cli.main").main
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children that answer
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                _answer(connection, main)
            connection.close()


def _answer(connection: socket.socket, main: Callable[[], object]) -> None:
    """Run the command of a connection in a process of its own, and tell its exit code."""
    request, streams, _, _ = socket.recv_fds(connection, _REQUEST_BYTES_MAX, 3)
    command = os.fork()
    if command == 0:
        connection.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.argv, directory, environment = json.loads(request)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        random.seed()
        sys.stdin, sys.stdout, sys.stderr = (open(n, mode) for n, mode in enumerate("rww"))  # noqa: SIM115, PTH123
        main()
    _, status = os.waitpid(command, 0)
    connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 255]))
    os._exit(0)


def _call(address: str, *arguments: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = json.dumps([["lakewright", *arguments], os.getcwd(), dict(os.environ)]).encode()  # noqa: PTH109
        socket.send_fds(connection, [request], [0, 1, 2])
        sys.exit(connection.recv(1)[0])


if __name__ == "__main__":
    {"serve": _serve, "call": _call}[sys.argv[1]](*sys.argv[2:])
