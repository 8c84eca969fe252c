"""SQL statements for both engines; `sql.embedded` runs them on DuckDB."""
