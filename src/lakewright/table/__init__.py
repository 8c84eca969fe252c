"""The table object, builders, one-call verbs, system tables."""
