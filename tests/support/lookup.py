"""What an engine answers while the names of a query are looked up."""

from __future__ import annotations

from collections.abc import Mapping

from lakewright.statements.sql_text import Args, Fragment, Name

DAY_MILLIS = 24 * 60 * 60 * 1000


class Engine:
    """An engine with a view `v` and the settings of a test."""

    zone = "UTC"

    def __init__(self, **settings: str) -> None:
        self.settings = {f"spark.paimon.{key}": value for key, value in settings.items()}

    def is_hidden(self, name: Name) -> bool:
        return [part.lower() for part in name.parts] == ["v"]

    def refresh_view(self, name: str) -> None:
        del name

    def table_settings(self) -> Mapping[str, str]:
        return self.settings

    def moment(self, expression: Fragment, args: Args) -> int:
        del args
        return DAY_MILLIS if expression.text.startswith("now()") else 0
