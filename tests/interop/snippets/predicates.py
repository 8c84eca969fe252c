"""Predicates as values: how they are made, joined, tested on a row and on statistics, and which rows a read keeps."""

import sys
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
from pypaimon import CatalogFactory, Schema
from pypaimon.common.predicate import Predicate
from pypaimon.common.predicate_builder import PredicateBuilder
from pypaimon.schema.data_types import AtomicType, DataField


class Row:
    def __init__(self, *values):
        self.values = values

    def get_field(self, pos):
        return self.values[pos]

    def __len__(self):
        return len(self.values)


class Stats:
    def __init__(self, low, high, nulls):
        self.min_values, self.max_values, self.null_counts = Row(*low), Row(*high), nulls


builder = PredicateBuilder([DataField(0, "id", AtomicType("INT")), DataField(1, "name", AtomicType("STRING"))])
made = [
    *(builder.equal("id", 3), builder.not_equal("id", 3), builder.less_than("id", 3), builder.less_or_equal("id", 3)),
    *(builder.greater_than("id", 3), builder.greater_or_equal("id", 3), builder.is_null("id"), builder.is_not_null("id")),
    *(builder.is_in("id", [3, None, 9]), builder.is_not_in("id", [3, 4]), builder.is_not_in("id", [3, None])),
    *(builder.between("id", 2, 3), builder.not_between("id", 2, 3), builder.is_in("id", [])),
    *(builder.startswith("name", "an"), builder.endswith("name", "a"), builder.contains("name", "nn")),
    *(builder.like("name", "_n%a"), builder.like("name", "100\\%")),
]
made.append(PredicateBuilder.and_predicates([made[0], made[14]]))
made.append(PredicateBuilder.or_predicates([made[0], made[14]]))
rows = [Row(3, "anna"), Row(4, "bob"), Row(None, None), Row(2, "100%")]
table = pa.table({"id": pa.array([3, 4, None, 2], pa.int32()), "name": ["anna", "bob", None, "100%"]})
stats = [Stats((1, "a"), (5, "c"), [1, 0]), Stats((3, "x"), (3, "z"), [0, 0]), Stats((None, None), (None, None), [4, 4])]
for one in made:
    print(one)
    print([one.test(row) for row in rows], [one.test_by_simple_stats(stat, 4) for stat in stats])
    kept = [ds.dataset(table).to_table(filter=arrow).to_pylist() for arrow in (one.to_arrow(), one.to_arrow(table.schema))]
    print(kept[0] == kept[1], kept[0])
print(PredicateBuilder.and_predicates([]), PredicateBuilder.or_predicates([]), PredicateBuilder.and_predicates(made[:1]))
print(made[0].new_index(1), made[0].new_literals([7]), made[0] == builder.equal("id", 3), made[0] == made[1])
print(made[0].method, made[0].index, made[0].field, made[0].literals, made[-1].literals == [made[0], made[14]])
for action in (lambda: builder.equal("no", 1), lambda: Predicate("odd", 0, "id", [1]).test(rows[0])):
    try:
        print(action())
    except ValueError:
        print("refused")

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
columns = pa.schema(
    [
        *(("i", pa.int32()), ("l", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("b", pa.bool_())),
        *(("d", pa.date32()), ("t", pa.timestamp("us")), ("n", pa.decimal128(10, 2)), ("y", pa.binary())),
    ]
)
values = {
    "i": [1, 2, None, 4],
    "l": [1 << 40, -5, 0, None],
    "f": [0.5, None, -1.25, 3.0],
    "s": ["apple", "a_b", None, "100%"],
    "b": [True, False, None, True],
    "d": [date(2024, 1, 1), date(2024, 2, 1), None, date(1969, 12, 31)],
    "t": [datetime(2024, 1, 1, 12), None, datetime(2023, 1, 1), datetime(1960, 1, 1)],
    "n": [Decimal("1.50"), Decimal("-2.25"), None, Decimal("100.00")],
    "y": [b"ab", b"", None, b"\xff"],
}
catalog.create_table("d.t", Schema.from_pyarrow_schema(columns), False)
stored = catalog.get_table("d.t")
writing = stored.new_batch_write_builder()
writer, commit = writing.new_write(), writing.new_commit()
writer.write_arrow(pa.Table.from_pydict(values, schema=columns))
commit.commit(writer.prepare_commit())


def read(predicate):
    reading = stored.new_read_builder().with_projection(["i", "l"]).with_filter(predicate)
    found = reading.new_read().to_arrow(reading.new_scan().plan().splits()).to_pylist()
    return [tuple(row.values()) for row in found]


by = stored.new_read_builder().new_predicate_builder()
literals = {
    "i": (2, 1),
    "l": (0, -5),
    "f": (0.5, -1.25),
    "s": ("apple", "100%"),
    "d": (date(2024, 1, 1), date(1969, 12, 31)),
    "t": (datetime(2024, 1, 1, 12), datetime(1960, 1, 1)),
    "n": (Decimal("1.50"), Decimal("-2.25")),
    "y": (b"ab", b""),
}
for name, (one, other) in literals.items():
    low, high = min(one, other), max(one, other)
    print(name, read(by.equal(name, one)), read(by.not_equal(name, one)), read(by.less_than(name, one)))
    print(read(by.less_or_equal(name, one)), read(by.greater_than(name, one)), read(by.greater_or_equal(name, one)))
    print(read(by.is_in(name, [one, other])), read(by.is_not_in(name, [one])), read(by.between(name, low, high)))
    print(read(by.not_between(name, low, low)), read(by.is_null(name)), read(by.is_not_null(name)))
print(read(by.equal("b", True)), read(by.startswith("s", "a")), read(by.endswith("s", "%")), read(by.contains("s", "p")))
print(read(by.like("s", "a\\_b")), read(by.like("s", "a%")), read(by.like("s", "_pple")))
print(read(by.and_predicates([by.greater_than("i", 1), by.or_predicates([by.is_null("l"), by.less_than("l", 0)])])))
print(read(Predicate(method="equal", index=0, field="i", literals=[4])))
