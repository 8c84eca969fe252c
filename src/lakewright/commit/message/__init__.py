"""Commit messages: what one writer did to one bucket in, bytes out, and back with every value checked."""
