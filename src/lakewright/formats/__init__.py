"""File formats, index files, and the writer of data files."""
