"""Tags with a time to live, pages of tags and partitions, managers of snapshots and schemas, and rollbacks."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.catalog.catalog_exception import TagNotExistException
from pypaimon.changelog.changelog_manager import ChangelogManager
from pypaimon.common.identifier import Identifier
from pypaimon.consumer.consumer import Consumer
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange
from pypaimon.schema.schema_manager import SchemaManager
from pypaimon.snapshot.snapshot_manager import SnapshotManager
from pypaimon.table.instant import Instant, SnapshotInstant
from pypaimon.tag.tag_manager import TagManager

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("shop", False)
columns = pa.schema([("dt", pa.string()), ("hr", pa.int32()), ("n", pa.int64())])
catalog.create_table("shop.t", Schema.from_pyarrow_schema(columns, partition_keys=["dt", "hr"]), False)
table = catalog.get_table("shop.t")


def append(dt, hr, *numbers):
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    rows = {"dt": [dt] * len(numbers), "hr": [hr] * len(numbers), "n": list(numbers)}
    writer.write_arrow(pa.Table.from_pydict(rows, schema=columns))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


print(catalog.list_partitions_paged("shop.t").elements, table.snapshot_manager().get_latest_snapshot())
append("2024-01-31", 1, 1, 2)
append("2024-02-01", 1, 3)
append("2024-02-01", 2, 4)
append("2024-02-02", 1, 5)
append("2024-02-02", 1, 6, 7)


def shown(page):
    return [(p.spec, p.record_count, p.file_count, p.total_buckets, p.done) for p in page.elements]


print(shown(catalog.list_partitions_paged("shop.t")))
print(shown(catalog.list_partitions_paged("shop.t", partition_name_pattern="dt=2024-02*")))
print(shown(catalog.list_partitions_paged("shop.t", partition_name_pattern="dt=2024-02-01,hr=*")))
print(shown(catalog.list_partitions_paged("shop.t", partition_name_pattern="dt=2024")))
token, seen = None, []
while True:
    page = catalog.list_partitions_paged("shop.t", max_results=2, page_token=token)
    seen.append(([p.spec["hr"] for p in page.elements], page.next_page_token))
    token = page.next_page_token
    if token is None:
        break
print(seen)
catalog.drop_partitions("shop.t", [{"dt": "2024-01-31", "hr": 1}])
print(len(catalog.list_partitions_paged(Identifier.from_string("shop.t")).elements))
try:
    catalog.drop_partitions("shop.t", [])
except ValueError:
    print("none to drop")

for name, snapshot_id in (("a1", 1), ("a2", 2), ("b1", 3)):
    catalog.create_tag("shop.t", name, snapshot_id=snapshot_id)
catalog.create_tag("shop.t", "brief", time_retained="1 d")
page = catalog.list_tags_paged("shop.t", max_results=2)
print(page.elements, page.next_page_token)
page = catalog.list_tags_paged("shop.t", max_results=2, page_token=page.next_page_token)
print(page.elements, page.next_page_token)
print(catalog.list_tags_paged("shop.t", tag_name_prefix="a").elements, catalog.list_tags_paged("shop.t", 0).elements)
plain, brief = catalog.get_tag("shop.t", "a2"), catalog.get_tag("shop.t", "brief")
print(plain.tag_name, plain.snapshot.id, plain.tag_create_time, plain.tag_time_retained)
print(brief.tag_name, brief.snapshot.id, brief.tag_create_time > 1_700_000_000_000, brief.tag_time_retained)
table.replace_tag("a2", snapshot_id=4, time_retained="90 min")
print(catalog.get_tag("shop.t", "a2").snapshot.id, catalog.get_tag("shop.t", "a2").tag_time_retained)
for call in (
    lambda: catalog.get_tag("shop.t", "no"),
    lambda: catalog.delete_tag("shop.t", "no"),
    lambda: catalog.create_branch("shop.t", "b", "no"),
):
    try:
        call()
    except TagNotExistException as error:
        print("no tag", error.tag)
print(table.delete_tag("b1"), table.delete_tag("b1"))

tags = table.tag_manager()
tag = tags.get("brief")
print(tag.id, tag.tag_time_retained, tag.trim_to_snapshot().id, tags.get("no"), tags.tag_exists("a1"))
print(tags.tag_path("a1").endswith("/tag/tag-a1"), tags.branch, sorted(tags.list_tags()))
tags.create_tag(table.snapshot_manager().get_snapshot_by_id(2), "two")
print(tags.get_or_throw("two").id, tags.delete_tag("two"), tags.delete_tag("two"))
for call in (
    lambda: tags.create_tag(tag, " "),
    lambda: tags.create_tag(tag, "a1"),
    lambda: tags.get_or_throw("no"),
    lambda: tags.rename_tag("no", "x"),
    lambda: tags.rename_tag("a1", "a2"),
    lambda: tags.replace_tag(tag, "no"),
):
    try:
        call()
    except ValueError:
        print("refused")

snapshots = table.snapshot_manager()
latest = snapshots.get_latest_snapshot()
print(latest.id, latest.commit_kind, latest.total_record_count, latest.delta_record_count, latest.schema_id)
print([s.id for s in snapshots.list_snapshots()], snapshots.get_snapshot_by_id(99))
print(snapshots.try_get_earliest_snapshot().id, snapshots.read_latest_file())
print(snapshots.earlier_or_equal_time_mills(latest.time_millis).id, snapshots.earlier_or_equal_time_mills(1))
print({k: v and v.id for k, v in snapshots.get_snapshots_batch([1, 3, 99]).items()})
found, following, skipped = snapshots.find_next_scannable(1, lambda s: s.id > 2)
print(found.id, following, skipped, snapshots.find_next_scannable(50, lambda s: True))
print(snapshots.get_snapshot_path(3).endswith("/snapshot/snapshot-3"), snapshots.branch)

schemas = table.schema_manager
changed = schemas.commit_changes([SchemaChange.add_column("more", AtomicType("INT"))])
print(changed.id, [f.name for f in changed.fields], schemas.latest().id, [s.id for s in schemas.list_all()])
print(schemas.get_schema(0).id, schemas.get_schema(7), schemas.schema_path.endswith("/schema"))
print(table.changelog_manager().latest_long_lived_changelog_id(), table.changelog_manager().safely_get_all_changelogs())
print(table.current_branch(), isinstance(schemas, SchemaManager), isinstance(snapshots, SnapshotManager))
print(isinstance(tags, TagManager), isinstance(table.changelog_manager(), ChangelogManager))

table.consumer_manager().reset_consumer("c", Consumer(2))
print(table.consumer_manager().with_branch("b").consumers(), table.consumer_manager().consumers())
print(Consumer.from_json(Consumer(7).to_json()), Instant.from_dict({"type": "snapshot", "snapshotId": 3}))
print(Instant.tag("x").to_dict(), Instant.snapshot(3) == SnapshotInstant(3), Instant.tag("x") == Instant.tag("y"))
third = snapshots.get_snapshot_by_id(3)
table.rollback_to_timestamp(third.time_millis)
print(snapshots.get_latest_snapshot().id, sorted(table.list_tags()))
for target in (99, "nothing", 2.5):
    try:
        table.rollback_to(target)
    except ValueError:
        print("refused", target)
try:
    table.rollback_to_timestamp(1)
except ValueError:
    print("refused a time")
