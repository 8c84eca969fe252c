"""The pages in design/ that describe the house agree with the sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakewright as lw
from support.house import FLOORS_PAGE, MODULES_PAGE, modules_page, with_floors_table
from support.options_page import PAGE, options_page
from test_layers import FLOOR, SOURCE, calls_of

REMEDY = "the page is older than the sources: run `make house`"


def test_the_floors_of_the_note_are_those_of_the_tests() -> None:
    page = FLOORS_PAGE.read_text()
    assert page == with_floors_table(page), REMEDY
    for room in FLOOR:
        assert re.search(rf"^\| {FLOOR[room]} \| `{room}(/|\.py)` \| \S", page, re.MULTILINE), f"no row for {room}"


def test_the_page_of_modules_lists_every_module() -> None:
    page = MODULES_PAGE.read_text()
    assert page == modules_page(), REMEDY
    described = re.findall(r"^\| `(\w+)` \| \S", page, re.MULTILINE)
    assert sorted(described) == sorted(p.stem for p in SOURCE.glob("**/*.py") if _listed(p.relative_to(SOURCE).parts))


def test_the_page_of_options_is_that_of_the_table() -> None:
    assert PAGE.read_text() == options_page(), REMEDY


def _listed(parts: tuple[str, ...]) -> bool:
    """Whether a module has a line of its own: those directly below the package are rooms, with headings."""
    return len(parts) > 1 and parts[-1] != "__init__.py"


def test_a_room_is_a_folder_or_a_module_and_has_a_floor() -> None:
    places = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert {path.stem for path in places} - {"__init__"} == FLOOR.keys()


def test_modules_and_names_of_the_seams_exist() -> None:
    seams = re.search(r"^## Seams\n.*?^```python\n(.*?)^```", FLOORS_PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert seams is not None
    modules = re.findall(r"[a-z_/]+\.py", "\n".join(re.findall(r"^# .*", seams[1], re.MULTILINE)))
    assert modules
    assert [module for module in modules if not (SOURCE / module).exists()] == []
    words = set(re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"#.*", "", seams[1])))
    sources = set(re.findall(r"\w+", "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))))
    assert words - sources == set()


# ---- the tour and the glossary ---------------------------------------------------------------------------------------

TOUR = (SOURCE.parent.parent / "design" / "tour.md").read_text()
GLOSSARY = (SOURCE.parent.parent / "design" / "glossary.md").read_text()
MAIN_LINE = re.findall(r"^\d+\. \*\*`([\w/]+\.py)`", TOUR.partition("## The way back")[0], re.MULTILINE)


def test_the_tour_is_short_and_its_files_exist() -> None:
    assert len(TOUR.splitlines()) <= 150
    assert len(MAIN_LINE) <= 15
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", TOUR)
    assert [path for path in named if not (SOURCE / path).exists()] == []


# The verb with which the row enters each file of steps 6 to 15; messages are plain values.
VERBS = [
    ("write/writer.py", "TableWriter.write"),
    ("write/input/intake.py", "KeyedIntake.take"),
    ("write/buckets/routing.py", "HashRouter.route"),
    ("write/keyed_buffer.py", "KeyedBuffer.add"),
    ("datafiles/rolling.py", "RollingFile.write"),
    ("formats/parquet/writer.py", "ParquetEncoder.encode"),
    ("commit/committer.py", "Committer.commit"),
    ("commit/run.py", "CommitRun.publish"),
    ("commit/publish.py", "SnapshotFiles.publish"),
]


def test_a_write_goes_through_the_files_of_the_tour_in_their_order(tmp_path: Path) -> None:
    assert [file for file in MAIN_LINE[5:] if "message" not in file] == [file for file, _ in VERBS]
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("shop")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    keys: dict[str, Any] = {"partition_keys": ["day"], "primary_keys": ["day", "id"]}
    catalog.create_table("shop.orders", lw.Schema.from_pyarrow_schema(columns, **keys, options={"bucket": "4"}))
    table = catalog.get_table("shop.orders")
    calls = calls_of(lambda: lw.write_table(pa.table({"id": [7], "day": ["2026-01-09"]}), table))
    assert [call for call in dict.fromkeys(calls) if call in VERBS] == VERBS


def test_the_glossary_is_short() -> None:
    words = [word for row in re.findall(r"^\| ([a-z][^|]*) \|", GLOSSARY, re.MULTILINE) for word in row.split(",")]
    assert 30 < len([word for word in words if word.strip() != "word"]) <= 45


def test_no_name_says_what_only_its_author_knew() -> None:
    riddles = re.compile(r"\b(?:class|def) _?(?:settled?|Manner|World|Wish|DoorOptions|Purpose|Replaced|found)\b")
    assert [f"{path}: {name}" for path in SOURCE.rglob("*.py") for name in riddles.findall(path.read_text())] == []


def test_the_folders_of_tests_have_the_names_of_rooms() -> None:
    tests = Path(__file__).parent
    # Not of one room; `face` is that of `pypaimon`, whose name would hide the real pypaimon from the tests.
    others = {"face", "interop", "release", "site", "soak", "support"}
    folders = [path.relative_to(tests) for path in tests.rglob("*") if path.is_dir() and any(path.glob("test_*.py"))]
    strangers = [str(folder) for folder in folders if folder.parts and folder.parts[0] not in others]
    assert [folder for folder in strangers if not (SOURCE / folder).is_dir()] == []
