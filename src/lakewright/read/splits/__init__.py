"""Splits: live files in, pieces of a plan that one worker reads by itself out."""
