"""File formats: Arrow data in, bytes and their facts out, and back. A caller opens the files."""
