"""Eight tables of a wholesale shop, of the shape of TPC-H: a scale and a seed in, Arrow tables out.

At scale 1 there are 6 million items, 1.5 million orders, 200,000 parts, 150,000 customers and 10,000 suppliers. Keys,
dates and amounts are spread as that benchmark describes it; the words are our own. Amounts are decimals of two digits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

AMOUNT = pa.decimal128(12, 2)
# Of each table: its primary key, for those who want one.
KEYS = {
    "region": ["r_id"],
    "nation": ["n_id"],
    "supplier": ["s_id"],
    "customer": ["c_id"],
    "part": ["p_id"],
    "supply": ["ps_part", "ps_supplier"],
    "orders": ["o_id"],
    "item": ["l_order", "l_line"],
}
_FIRST, _TODAY, _LAST = (np.datetime64(day, "D").astype(np.int64) for day in ("1992-01-01", "1995-06-17", "1998-08-02"))
_NATIONS = {
    "AFRICA": ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    "AMERICA": ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    "ASIA": ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"],
    "EUROPE": ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    "MIDDLE EAST": ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
}
_COLOURS = (
    "amber azure beige black blue brown coral cream cyan forest gold green indigo ivory khaki lime olive red".split()
)
_FINISHES = ["PROMO", "STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY"]
_COATINGS = ["PLATED", "POLISHED", "BRUSHED", "BURNISHED", "ANODIZED"]
_METALS = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]
_SIZES = ["SM", "MED", "LG", "JUMBO", "WRAP"]
_BOXES = ["BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG"]
_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
_PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW", "5-NONE"]
_MODES = ["AIR", "AIR REG", "MAIL", "RAIL", "SHIP", "TRUCK", "FOB"]
_INSTRUCTIONS = ["IN PERSON", "COLLECT", "NONE", "RETURN"]
_WORDS = (
    "quick calm late early bold quiet deposits parcels accounts ideas pinto packages theories wake sleep nag".split()
)


def shop_tables(scale: float, seed: int = 17) -> dict[str, pa.Table]:
    """Return the tables by their names."""
    made = _Shop(scale, np.random.default_rng(seed))
    return {name: getattr(made, name)() for name in KEYS}


class _Shop:
    """The sizes of the tables, and the random numbers that fill them."""

    def __init__(self, scale: float, chance: np.random.Generator) -> None:
        self._chance = chance
        self._suppliers = max(10, int(10_000 * scale))
        self._customers = max(30, int(150_000 * scale))
        self._parts = max(40, int(200_000 * scale))
        self._orders = max(100, int(1_500_000 * scale))
        self._dates = chance.integers(_FIRST, _LAST - 151, self._orders)
        self._lines = chance.integers(1, 8, self._orders)

    def region(self) -> pa.Table:
        return pa.table({"r_id": _ints(np.arange(5)), "r_name": list(_NATIONS)})

    def nation(self) -> pa.Table:
        rows = [(name, at) for at, names in enumerate(_NATIONS.values()) for name in names]
        names, regions = zip(*rows, strict=True)
        return pa.table({"n_id": _ints(np.arange(25)), "n_name": names, "n_region": _ints(np.array(regions))})

    def supplier(self) -> pa.Table:
        count, nations = self._suppliers, self._chance.integers(0, 25, self._suppliers)
        notes = self._notes(count, "customer", "complaints", share=0.02)
        return pa.table(
            {
                "s_id": pa.array(np.arange(1, count + 1)),
                "s_name": _numbered("Supplier#", np.arange(1, count + 1)),
                "s_address": self._words(count, 2),
                "s_nation": _ints(nations),
                "s_phone": self._phones(nations),
                "s_balance": _amounts(self._chance.integers(-99_999, 1_000_000, count)),
                "s_note": notes,
            }
        )

    def customer(self) -> pa.Table:
        count, nations = self._customers, self._chance.integers(0, 25, self._customers)
        return pa.table(
            {
                "c_id": pa.array(np.arange(1, count + 1)),
                "c_name": _numbered("Customer#", np.arange(1, count + 1)),
                "c_address": self._words(count, 2),
                "c_nation": _ints(nations),
                "c_phone": self._phones(nations),
                "c_balance": _amounts(self._chance.integers(-99_999, 1_000_000, count)),
                "c_segment": self._one_of(_SEGMENTS, count),
                "c_note": self._words(count, 5),
            }
        )

    def part(self) -> pa.Table:
        count = self._parts
        makers, brands = self._chance.integers(1, 6, count), self._chance.integers(1, 6, count)
        types = [f"{a} {b} {c}" for a in _FINISHES for b in _COATINGS for c in _METALS]
        return pa.table(
            {
                "p_id": pa.array(np.arange(1, count + 1)),
                "p_name": self._words(count, 4, _COLOURS),
                "p_maker": _numbered("Maker#", makers, 1),
                "p_brand": _numbered("Brand#", makers * 10 + brands, 2),
                "p_type": self._one_of(types, count),
                "p_size": _ints(self._chance.integers(1, 51, count)),
                "p_container": self._one_of([f"{size} {box}" for size in _SIZES for box in _BOXES], count),
                "p_price": _amounts(self._part_cents(np.arange(1, count + 1))),
            }
        )

    def supply(self) -> pa.Table:
        parts = np.repeat(np.arange(1, self._parts + 1), 4)
        turns = np.tile(np.arange(4), self._parts)
        return pa.table(
            {
                "ps_part": pa.array(parts),
                "ps_supplier": pa.array(self._supplier_of(parts, turns)),
                "ps_available": _ints(self._chance.integers(1, 10_000, len(parts))),
                "ps_cost": _amounts(self._chance.integers(100, 100_001, len(parts))),
            }
        )

    def orders(self) -> pa.Table:
        count = self._orders
        customers = self._chance.integers(1, self._customers + 1, count)
        customers -= (customers % 3 == 0) & (customers > 1)  # a third of the customers has never ordered anything
        statuses = np.where(self._dates > _TODAY, 1, np.where(self._dates > _TODAY - 90, 2, 0))
        return pa.table(
            {
                "o_id": pa.array(np.arange(1, count + 1)),
                "o_customer": pa.array(customers),
                "o_status": pa.array(["F", "O", "P"]).take(pa.array(statuses)),
                "o_total": _amounts(self._chance.integers(100_000, 50_000_000, count)),
                "o_date": _days(self._dates),
                "o_priority": self._one_of(_PRIORITIES, count),
                "o_clerk": _numbered("Clerk#", self._chance.integers(1, 1001, count)),
                "o_note": self._notes(count, "special", "requests", share=0.1),
            }
        )

    def item(self) -> pa.Table:
        orders = np.repeat(np.arange(1, self._orders + 1), self._lines)
        count, ordered = len(orders), np.repeat(self._dates, self._lines)
        starts = np.repeat(np.cumsum(self._lines) - self._lines, self._lines)
        parts = self._chance.integers(1, self._parts + 1, count)
        quantities = self._chance.integers(1, 51, count)
        shipped = ordered + self._chance.integers(1, 122, count)
        received = shipped + self._chance.integers(1, 31, count)
        returned = np.where(received <= _TODAY, self._chance.integers(0, 2, count), 2)
        return pa.table(
            {
                "l_order": pa.array(orders),
                "l_line": _ints(np.arange(count) - starts + 1),
                "l_part": pa.array(parts),
                "l_supplier": pa.array(self._supplier_of(parts, self._chance.integers(0, 4, count))),
                "l_quantity": _amounts(quantities * 100),
                "l_price": _amounts(quantities * self._part_cents(parts)),
                "l_discount": _amounts(self._chance.integers(0, 11, count)),
                "l_tax": _amounts(self._chance.integers(0, 9, count)),
                "l_returned": pa.array(["A", "R", "N"]).take(pa.array(returned)),
                "l_status": pa.array(["F", "O"]).take(pa.array((shipped > _TODAY).astype(np.int64))),
                "l_shipped": _days(shipped),
                "l_promised": _days(ordered + self._chance.integers(30, 91, count)),
                "l_received": _days(received),
                "l_instruction": self._one_of(_INSTRUCTIONS, count),
                "l_mode": self._one_of(_MODES, count),
            }
        )

    def _part_cents(self, parts: Numbers) -> Numbers:
        return 90_000 + parts // 10 % 20_001 + 100 * (parts % 1_000)

    def _supplier_of(self, parts: Numbers, turns: Numbers) -> Numbers:
        """Return one of the four suppliers of each part."""
        step = self._suppliers // 4
        return (parts + turns * step + (parts - 1) // self._suppliers) % self._suppliers + 1

    def _one_of(self, words: Sequence[str], count: int) -> pa.Array:
        return pa.array(words).take(pa.array(self._chance.integers(0, len(words), count)))

    def _words(self, count: int, length: int, words: Sequence[str] = _WORDS) -> pa.Array:
        """Return texts of some words, of which there are some thousands."""
        texts = [" ".join(self._chance.choice(words, length)) for _ in range(min(count, 4_000))]
        return self._one_of(texts, count)

    def _notes(self, count: int, first: str, second: str, *, share: float) -> pa.Array:
        """Return texts of which a share has one word and another one after it."""
        common = [" ".join(self._chance.choice(_WORDS, 4)) for _ in range(1_000)]
        rare = [f"{text} {first} {_WORDS[at % len(_WORDS)]} {second}" for at, text in enumerate(common)]
        chosen = self._chance.integers(0, 1_000, count) + 1_000 * (self._chance.random(count) < share)
        return pa.array([*common, *rare]).take(pa.array(chosen))

    def _phones(self, nations: Numbers) -> pa.Array:
        numbers = self._chance.integers(1_000_000, 10_000_000, len(nations)).tolist()
        return pa.array([f"{nation + 10}-{number}" for nation, number in zip(nations.tolist(), numbers, strict=True)])


def _ints(numbers: Numbers) -> pa.Array:
    return pa.array(numbers.astype(np.int32))


def _days(days: Numbers) -> pa.Array:
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def _numbered(word: str, numbers: Numbers, digits: int = 9) -> pa.Array:
    return pa.array([f"{word}{number:0{digits}d}" for number in numbers.tolist()])


def _amounts(cents: Numbers) -> pa.Array:
    """Return hundredths as decimals, without a loop over them: a decimal is two words, the lower one first."""
    words = np.stack([cents.astype(np.int64), cents.astype(np.int64) >> 63], axis=1)
    return pa.Array.from_buffers(AMOUNT, len(cents), [None, pa.py_buffer(np.ascontiguousarray(words))])
