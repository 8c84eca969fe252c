"""Lazy tables of other libraries: a table in, a lazy frame of polars or a relation of DuckDB out.

What always holds: a table is read at the state it had when the lazy table was made, and only the columns and files are
read that a query needs.
"""
