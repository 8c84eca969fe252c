"""Reads: a snapshot and a predicate in, splits out; a split in, Arrow batches of today's schema out."""
