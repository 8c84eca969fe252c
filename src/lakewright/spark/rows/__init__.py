"""Row-level changes on Spark: deletes, updates, merges and changes by row id in, one snapshot each out."""
