"""Filters: text, expressions and literals of users in, predicates bound to columns of a table out."""
