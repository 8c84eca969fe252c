"""The page about a table. Loaded by `table.report()` and the command line only."""
