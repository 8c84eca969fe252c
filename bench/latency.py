"""How many latencies of a slow object store each call takes: time on the wall divided by the delay of the store.

    PYTHONPATH=tests python bench/latency.py [--delay 60] [--repeats 3] [--peers]

The store is `bench/slow_s3.py`. Tables have 30 small commits, the times are medians. Goals stand beside the figures,
and the number of requests, which the store counts. With `--peers`, libraries that are installed in the environment of
the peers do the same, as far as they can. Run by `make bench CASE=latency`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import lakewright as lw
from support.latency_cases import CASES, Case, Tables
from support.s3 import S3Server, s3_options

HERE = Path(__file__).parent
PEERS_PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(HERE.parent / ".venvs" / "peers" / "bin" / "python")))
PEERS = ("pypaimon", "pypaimon-rust", "deltalake")


@dataclass(frozen=True)
class SlowStore:
    """A running store and how to reach it."""

    process: subprocess.Popen[str]
    endpoint: str

    def wait(self, delay: int) -> int:
        """Let each answer wait so many milliseconds, and return how many requests there were since the last time."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{delay}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextmanager
def slow_store() -> Iterator[SlowStore]:
    """Run a store, which waits only while something is measured."""
    command = [sys.executable, str(HERE / "slow_s3.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield SlowStore(process, process.stdout.readline().strip())


@dataclass(frozen=True)
class Figure:
    """How long a case took."""

    latencies: float
    requests: float
    each: tuple[float, ...]


def measured(store: SlowStore, delay: int, repeats: int, run: Callable[[], object]) -> Figure:
    """Run a case several times and return the medians."""
    times, requests = [], []
    run()  # what a process does once is no part of it: imports, clients, tests of the store
    for _ in range(repeats):
        store.wait(delay)
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1000 / delay)
        requests.append(store.wait(0))
    return Figure(statistics.median(times), statistics.median(requests), tuple(times))


@dataclass(frozen=True)
class Peer:
    """A peer in its own environment."""

    process: subprocess.Popen[str]

    def does(self, verb: str, case: Case) -> bool:
        """Let the peer prepare or run a case, and say whether it could."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{verb} {case.name}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip() == "ok"

    def measured(self, case: Case, store: SlowStore, delay: int, repeats: int) -> str:
        """Return how many latencies a case takes, "-" if the peer cannot do it."""
        if not self.does("prepare", case) or not self.does("run", case):
            return "-"
        figure = measured(store, delay, repeats, lambda: self.does("run", case))
        return f"{figure.latencies:.1f} ({figure.requests:.0f})"


@contextmanager
def running_peers(names: Sequence[str], store: SlowStore, bucket: str) -> Iterator[dict[str, Peer]]:
    """Start the peers that are installed."""
    with ExitStack() as stack:
        peers = {}
        for name in names:
            module = name.replace("-", "_")
            if subprocess.run([PEERS_PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
                print(f"{name} is not installed in {PEERS_PYTHON}", file=sys.stderr)
                continue
            command = [str(PEERS_PYTHON), str(HERE / "latency_peer.py"), name, store.endpoint, f"s3://{bucket}/{name}"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            peers[name] = Peer(stack.enter_context(process))
        yield peers


def chosen(words: list[str]) -> list[Case]:
    """Return the cases whose name has one of the words."""
    return [case for case in CASES if not words or any(word in case.name for word in words)]


def main() -> None:
    """Run all cases and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=int, default=60, help="milliseconds")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("cases", nargs="*", help="words of the names of the cases to run")
    arguments = parser.parse_args()
    with slow_store() as store:
        options = s3_options(store.endpoint)
        bucket = S3Server(store.endpoint, options).make_bucket()
        warehouse = f"s3://{bucket}/{uuid.uuid4()}"
        tables = Tables(lambda: lw.CatalogFactory.create({**options, "warehouse": warehouse}))
        titles = ["goal", "lakewright", "each run"]
        with running_peers(PEERS if arguments.peers else (), store, bucket) as peers:
            print(f"| latencies of {arguments.delay} ms (requests) | {' | '.join([*titles, *peers])} |")
            print("| --- " * (1 + len(titles) + len(peers)) + "|")
            for case in chosen(arguments.cases):
                case.prepare(tables)
                figure = measured(store, arguments.delay, arguments.repeats, lambda: case.run(tables))  # noqa: B023
                each = " ".join(f"{one:.1f}" for one in figure.each)
                ours = [str(case.goal), f"{figure.latencies:.1f} ({figure.requests:.0f})", each]
                theirs = (peer.measured(case, store, arguments.delay, arguments.repeats) for peer in peers.values())
                print(f"| {' | '.join([case.name, *ours, *theirs])} |", flush=True)


if __name__ == "__main__":
    main()
