"""SQL statements: text in, frozen values out, and what they do to catalogs and tables on any engine."""
