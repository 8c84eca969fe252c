"""Commit messages to one published snapshot, or the reason why not."""
