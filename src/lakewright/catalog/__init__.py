"""Names of databases and tables: files, SQL, REST."""
