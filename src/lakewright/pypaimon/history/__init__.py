"""pypaimon's shapes of a table's history: managers, the catalog's verbs, and the values that they take and return.

Ids, names and instants come in; snapshots, tags, branches, consumers and partitions go out. Everything is done by
lakewright's stores.
"""
