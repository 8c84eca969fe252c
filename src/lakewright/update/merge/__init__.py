"""Merge and upsert: rows of a source, rows of the table and clauses in; what becomes of each row out."""
