"""Files, tables and frames into a table; migration and copies."""
