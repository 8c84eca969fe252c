"""pypaimon's reads: builders, scans, splits, files and system tables in its shapes, with lakewright's behind them."""
