"""polars, DuckDB and PyTorch."""
