"""Statistics of a table: the rows of one snapshot in, counts, bounds and distinct values of columns out, committed.

    sketch     hashes of values in, how many distinct values there are out
    columns    batches of rows in, the statistics of their columns out; parts can be merged
    analyze    a table in; one ANALYZE snapshot that names the statistics of the newest state out

What always holds: memory does not grow with the rows, and a statistics file is named by a snapshot or deleted.
"""
