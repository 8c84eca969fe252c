"""Writes on Spark: a frame in, one snapshot of all that the workers wrote out."""
