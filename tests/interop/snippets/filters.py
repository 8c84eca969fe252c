"""Predicates of every kind, projections, limits."""

import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("zoo", False)
info = pa.struct([("age", pa.int32()), ("tag", pa.string())])
columns = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("legs", pa.int32()), ("info", info)])
catalog.create_table("zoo.animals", Schema.from_pyarrow_schema(columns), False)
table = catalog.get_table("zoo.animals")
builder = table.new_batch_write_builder()
writer, commit = builder.new_write(), builder.new_commit()
writer.write_arrow(
    pa.Table.from_pydict(
        {
            "id": [1, 2, 3, 4],
            "kind": ["spider", "cow", "crow", None],
            "legs": [8, 4, 2, None],
            "info": [{"age": 1, "tag": "a"}, {"age": 2, "tag": None}, None, {"age": 4, "tag": "d"}],
        },
        schema=columns,
    )
)
commit.commit(writer.prepare_commit())
writer.close()
commit.close()

p = table.new_read_builder().new_predicate_builder()
for predicate in (
    p.equal("kind", "cow"),
    p.not_equal("legs", 4),
    p.less_than("legs", 4),
    p.less_or_equal("legs", 4),
    p.greater_than("legs", 4),
    p.greater_or_equal("legs", 4),
    p.is_null("kind"),
    p.is_not_null("kind"),
    p.startswith("kind", "c"),
    p.endswith("kind", "ow"),
    p.contains("kind", "pid"),
    p.like("kind", "c%w"),
    p.is_in("id", [1, 4, 9]),
    p.is_not_in("legs", [8]),
    p.between("legs", 2, 4),
    p.not_between("legs", 3, 5),
    p.and_predicates([p.or_predicates([p.less_than("id", 2), p.greater_than("legs", 3)]), p.endswith("kind", "w")]),
):
    rows = table.new_read_builder().with_filter(predicate)
    print([row["id"] for row in rows.new_read().to_arrow(rows.new_scan().plan().splits()).to_pylist()])

for names in (["legs", "kind"], ["info.tag", "id"], ["info"]):
    rows = table.new_read_builder().with_projection(names)
    result = rows.new_read().to_arrow(rows.new_scan().plan().splits())
    print(result.schema.names, [str(each.type) for each in result.schema], result.to_pylist())
    print([field.name for field in rows.read_type()])
rows = table.new_read_builder().with_limit(2)
print(rows.new_read().to_arrow(rows.new_scan().plan().splits()).num_rows)
