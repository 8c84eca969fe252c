"""Writes: data of any shape in, data files and commit messages out. Nothing here commits."""
