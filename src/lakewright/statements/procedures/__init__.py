"""Procedures: the arguments of `CALL sys.name(...)` in, what was done to a table as rows out; see `registry`."""
