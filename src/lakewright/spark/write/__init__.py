"""Writes on Spark: a frame in, commit messages of the workers home, one snapshot out."""
