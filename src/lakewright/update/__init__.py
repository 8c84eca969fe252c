"""Row-level changes: a condition, a source or row ids in, commit messages of one snapshot out."""
