"""pypaimon's values: names, types, schemas, options, predicates and rows that scripts make; lakewright's values inside.

Each can be handed to lakewright in place of its own, and equals it.
"""
