"""The picture of a table: its metadata in, facts out, and from the facts one page for people."""
