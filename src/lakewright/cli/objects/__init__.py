"""Commands that make, change and remove databases, tables, tags and branches."""
