"""Commits: commit messages in, one published snapshot out, or the reason why not.

A commit is published once, not published, or its end is unknown; what is unknown is never guessed.
"""
