"""An S3 emulator that waits a fixed time before each answer, and answers side by side: a store that is far away.

    PYTHONPATH=tests python bench/slow_s3.py

prints its endpoint and runs until its standard input is closed. Each line there is a number of milliseconds to wait
from now on, at first 0, and is answered with the number of requests since the last line. The emulator has a process of
its own, so that it and what is measured do not wait for one interpreter.
"""

from __future__ import annotations

import sys
import time
from unittest.mock import patch

from moto.moto_server.werkzeug_app import DomainDispatcherApplication

from support.s3 import running_s3


def main() -> None:
    """Run the server."""
    wait_seconds = 0.0
    answer = DomainDispatcherApplication.__call__

    def late(self: DomainDispatcherApplication, environ: dict[str, str], start_response: object) -> object:
        time.sleep(wait_seconds)
        return answer(self, environ, start_response)

    with patch.object(DomainDispatcherApplication, "__call__", late), running_s3() as server:
        print(server.endpoint, flush=True)
        for line in sys.stdin:
            wait_seconds = int(line) / 1000
            print(len(server.requests), flush=True)
            server.requests.clear()


if __name__ == "__main__":
    main()
