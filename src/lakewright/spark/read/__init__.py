"""Reads on Spark: a plan of splits in, a frame pinned to one snapshot out."""
