"""Expiry, orphans, branches, rollback, tags, partitions, statistics, repair, verification."""

from lakewright.maintenance.upkeep import Upkeep

__all__ = ["Upkeep"]
