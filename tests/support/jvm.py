"""How the tests start Java."""

from __future__ import annotations

# A test ends before code that was compiled with much care has paid for that: this halves the work of a short session.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
