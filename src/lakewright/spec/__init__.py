"""The format as values: types, schema, options, rows, statistics, predicates."""
