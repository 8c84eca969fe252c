"""A snapshot and a predicate to splits; a split to batches."""
