"""What a diagnosis found: frozen values that name a check, how it ended, what was seen and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from lakewright.display.notebook import InNotebook

Status: TypeAlias = Literal["ok", "warning", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, such as `storage.create-once`, how it ended, what was seen, and what to do if it failed."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.status}: {self.found}" + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Diagnosis(InNotebook):
    """The checks of one diagnosis, in the order in which they were made."""

    checks: tuple[Check, ...]

    @property
    def is_healthy(self) -> bool:
        """Say whether no check failed; warnings are no failures."""
        return not any(check.status == "failed" for check in self.checks)

    def _shown_facts(self) -> dict[str, object]:
        shown = {check.name: f"{check.status}: {check.found}. {check.remedy}".rstrip(". ") for check in self.checks}
        return {"is_healthy": "yes" if self.is_healthy else "no", **shown}
