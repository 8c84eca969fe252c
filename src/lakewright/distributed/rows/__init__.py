"""Row-level changes by the workers of an engine: deletes, updates, merges and changes by row id in, messages out."""
