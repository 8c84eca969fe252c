"""Compaction: which files of a bucket to rewrite, rewriting them, and committing the result."""
