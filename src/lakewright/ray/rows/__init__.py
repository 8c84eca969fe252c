"""Row-level changes on Ray: deletes, updates, merges and changes by row id in, one snapshot each out."""
