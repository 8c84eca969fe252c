"""The picture in docs/report.md, made anew: `python -m support.report_picture`, with a Chromium on the machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from support.report_tables import BROWSER, orders

PICTURE = Path(__file__).parent.parent.parent / "docs" / "report.png"
_BYTES_MAX = 200_000


def main() -> None:
    """Draw a table, and photograph the upper part of its page."""
    if BROWSER is None:
        sys.exit("there is no Chromium on this machine")
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "report.html"
        orders(Path(place) / "warehouse").report(target)
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1160,1560")
        call = [BROWSER, *flags, f"--user-data-dir={place}/profile", f"--screenshot={PICTURE}", target.as_uri()]
        subprocess.run(call, check=True, capture_output=True, timeout=100)
    if PICTURE.stat().st_size > _BYTES_MAX:
        sys.exit(f"{PICTURE} has {PICTURE.stat().st_size:,} bytes: make it smaller")


if __name__ == "__main__":
    main()
