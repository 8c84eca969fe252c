"""Expiry, orphans, branches, rollback, tags, partitions, statistics, repair, verification."""
