"""The Spark engine: distributed writes with one atomic commit, reads at Spark's own speed, streams and SQL."""
