"""Jobs of Spark: a session and a function over partitions in, one payload per task out; faults, clean-up, progress."""
