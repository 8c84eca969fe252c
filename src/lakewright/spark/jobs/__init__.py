"""Jobs of Spark: a session and a function over partitions in, one payload per task home; faults, clean-up, progress."""
