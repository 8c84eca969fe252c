"""Queries over our tables: slices of text in, the tables that they read and the text that an engine gets out."""
