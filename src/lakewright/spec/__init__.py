"""The format as values: types, schemas, options, rows, statistics, predicates, and the facts that metadata records.

Nothing here opens a file.
"""
