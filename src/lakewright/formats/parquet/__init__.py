"""Parquet files: Arrow columns in, one file with page checksums and statistics out, and back."""
