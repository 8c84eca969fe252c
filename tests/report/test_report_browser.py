"""The report in a real browser: every panel is drawn, nothing overflows, on a desk and on a phone, light and dark.

It needs a Chromium on the machine, which no package of Python brings: `make report-browser` installs one and runs this.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.report_tables import BROWSER, PANELS, odd_table, orders

_PROBE = """<script>
const shapes = [...document.querySelectorAll('svg.chart rect:not(.track)')];
const box = e => e.getBoundingClientRect();
parent.document.getElementById('found').textContent = JSON.stringify({
  panels: Object.fromEntries(
    [...document.querySelectorAll('section.panel')].map(e => [e.id, [box(e).width, box(e).height]])),
  charts: [...document.querySelectorAll('svg.chart')].map(e => [e.closest('section').id, box(e).width, box(e).height]),
  drawn: shapes.filter(e => box(e).width > 0 && box(e).height > 0).length,
  coloured: shapes.filter(e => getComputedStyle(e).fill !== 'rgb(0, 0, 0)').length,
  shapes: shapes.length,
  width: document.documentElement.scrollWidth,
  background: getComputedStyle(document.body).backgroundColor,
});</script></body>"""


def _looked_at(text: str, width: int, tmp_path: Path, *, dark: bool = False) -> dict[str, Any]:
    """Show a page in a frame of some width and return what was drawn; the probe is the only script."""
    # The policy of the page forbids scripts, also this one.
    open_to_probe = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", _PROBE)
    frame = f'<iframe style="width:{width}px;height:4000px;border:0" srcdoc="{html.escape(open_to_probe)}"></iframe>'
    outer = tmp_path / f"frame-{width}.html"
    outer.write_text(f'<!DOCTYPE html><meta charset="utf-8"><pre id="found"></pre>{frame}', encoding="utf-8")
    assert BROWSER is not None
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    flags = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", scheme)
    call = [BROWSER, *flags, "--virtual-time-budget=4000", "--dump-dom", outer.as_uri()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=100, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None
    return json.loads(html.unescape(found[1]))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    place = tmp_path_factory.mktemp("tables")
    return [orders(place / "orders").report(), odd_table(place / "odd").report()]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: `make report-browser` runs this test with one")
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)], ids=["desk", "phone, dark"])
def test_every_panel_is_drawn(pages: list[str], width: int, dark: bool, tmp_path: Path) -> None:
    for text in pages:
        found = _looked_at(text, width, tmp_path, dark=dark)
        panels = found["panels"]
        assert set(panels) == set(PANELS)
        assert all(wide > width / 3 and high > 40 for wide, high in panels.values())
        charts = found["charts"]
        assert all(wide > 100 and high > 20 for _, wide, high in charts)
        assert {"history", "partitions", "sizes", "reading", "deleted"} <= {panel for panel, _, _ in charts}
        assert found["shapes"] == found["coloured"] == found["drawn"] != 0
        assert found["width"] <= width, "the page must not scroll sideways"
        assert found["background"] == ("rgb(16, 20, 27)" if dark else "rgb(244, 245, 247)")
