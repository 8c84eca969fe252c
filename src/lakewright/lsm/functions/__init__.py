"""Merge functions: the rows of one key side by side in, one row per key out, as `merge-engine` says."""
