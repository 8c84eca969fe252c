"""Statements in this process: DuckDB runs the queries, and the results are Arrow tables."""
