"""Spark's meaning in DuckDB: queries of Spark in, SQL of DuckDB with the same values, types and errors out."""
