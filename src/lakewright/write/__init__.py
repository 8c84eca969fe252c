"""Data of any form to data files and commit messages."""
