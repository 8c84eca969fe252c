"""`format("lakewright")`: options of Spark's own verbs and SQL in, reads, sinks and streams of a table out."""
