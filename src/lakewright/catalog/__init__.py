"""Catalogs: names of databases and tables in, tables and system tables out."""
