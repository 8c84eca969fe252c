"""System tables: a table in, what its metadata says as rows out; they are read like any table and never written."""
