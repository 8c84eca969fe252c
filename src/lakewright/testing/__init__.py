"""For tests alone: storages with faults, contracts of storages and engines, and runs through every fault."""
