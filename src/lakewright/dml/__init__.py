"""Delete, update, upsert, merge and distributed writes: one plan, one runner, two strategies."""
