"""Statements on Spark: Spark evaluates queries and expressions as they are written, and its workers write."""
