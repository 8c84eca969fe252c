"""Upkeep: expiry of snapshots, removal of orphans, and changes of a schema that must look at rows first."""
