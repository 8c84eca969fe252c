"""Ingest on Spark: sources in, frames that Spark's workers read, convert and write out."""
