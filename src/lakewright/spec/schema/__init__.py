"""Schemas: what a user declares in, what a schema file records out, and the rules of its changes."""
