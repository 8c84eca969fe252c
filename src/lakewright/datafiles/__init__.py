"""Data files: rows of one bucket in, finished files with their recorded facts out.

Writers, compaction and commits that renumber rows all make data files, so this room lies below the three.
"""
