"""Databases, tables and tags: the commands that create, change, show and drop them, for every engine alike."""
