"""Branches: from the table, from a tag, to and fro."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import BranchAlreadyExistException, BranchNotExistException

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("dev", False)
columns = pa.schema([("n", pa.int32())])
catalog.create_table("dev.t", Schema.from_pyarrow_schema(columns), False)


def append(table, value):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pydict({"n": [value]}, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def numbers(table):
    builder = table.new_read_builder()
    return sorted(builder.new_read().to_arrow(builder.new_scan().plan().splits())["n"].to_pylist())


table = catalog.get_table("dev.t")
append(table, 1)
table.create_tag("one")
append(table, 2)
manager = table.branch_manager()
manager.create_branch("feature", tag_name="one")
manager.create_branch("empty")
print(sorted(manager.branches()), manager.branch_exists("feature"), manager.branch_exists("other"))
manager.create_branch("empty", ignore_if_exists=True)
for name in ("main", "", "12"):
    try:
        manager.create_branch(name)
    except ValueError:
        print("refused", repr(name))

branch = catalog.get_table("dev.t$branch_feature")
print(numbers(branch), numbers(table))
append(branch, 30)
print(numbers(catalog.get_table("dev.t$branch_feature")), numbers(table))
manager.rename_branch("empty", "spare")
print(sorted(manager.branches()))
manager.drop_branch("spare")
print(sorted(manager.branches()))
manager.fast_forward("feature")
print(numbers(catalog.get_table("dev.t")))

catalog.create_branch("dev.t", "second", tag_name="one")
print(sorted(catalog.list_branches("dev.t")))
try:
    catalog.create_branch("dev.t", "second")
except BranchAlreadyExistException as error:
    print("there", error.branch)
catalog.rename_branch("dev.t", "second", "third")
catalog.drop_branch("dev.t", "third")
try:
    catalog.drop_branch("dev.t", "third")
except BranchNotExistException as error:
    print("gone", error.branch)
