"""For tests alone: storages with faults, contracts of storages, engines and catalogs, and runs through every fault."""
