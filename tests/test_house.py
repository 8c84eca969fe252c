"""The pages in design/ that describe the house agree with the sources."""

from __future__ import annotations

import re

from support.house import FLOORS_PAGE, MODULES_PAGE, modules_page, with_floors_table
from test_layers import FLOOR, SOURCE

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
