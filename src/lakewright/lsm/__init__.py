"""Key order, sorted runs, merge engines. Pure functions over Arrow data."""
