"""Ingest: files, tables and frames in, one snapshot of one table out. What the engines share, and the embedded engine.

    sources   the sources that the call names, checked
    plan      the arguments as one value, the table or the place for a new one, the plan and the result
    columns   which column of the table each column of a source becomes
    text      texts to values of a type; which type a column of texts has
    rows      batches of a source to rows of the table, and which rows are bad
    files     local files to batches
    run       the steps of an ingest, for any engine
    local     the engine in this process

Always holds: no text becomes another value, or null, because it could not be read; what was ignored, filled, renamed or
left out is in the report; nothing is committed unless every row was written, or went to the file of bad rows that the
caller asked for.
"""
