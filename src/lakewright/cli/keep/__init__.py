"""Commands that keep tables in order: their files, their history, their copies."""
