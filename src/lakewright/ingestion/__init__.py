"""Ingest: files, tables and frames in, one snapshot of one table out. What the engines share, and the embedded engine.

    sources   what the call names, found and checked
    plan      the table (or the place where it is made), the call as values, what is reported
    columns   names of the source to columns of the table
    text      texts to values of a type; which type a column of texts has
    rows      batches of a source to rows of the table, and which rows cannot be
    files     local files to batches
    run       the steps of an ingest, for any engine
    local     the engine in this process

Always holds: no text becomes another value, or null, because it could not be read; what was ignored, filled, renamed or
left out is in the report; nothing is committed unless every row was taken or set aside as the caller asked.
"""
