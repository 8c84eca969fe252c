"""The tables of rooms and modules in design/: floors and docstrings in, markdown out.

`make house` writes them; tests/test_house.py compares them with what is written. A room is a folder or a module
directly below src/lakewright, a sub-room is a folder in a room. The sentence about each is the first of its docstring.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from support import options_page, versions_page
from test_layers import FLOORS, SOURCE

DESIGN = SOURCE.parent.parent / "design"
FLOORS_PAGE = DESIGN / "0001-the-house.md"
MODULES_PAGE = DESIGN / "modules.md"
BEGIN = "<!-- written by `make house`: begin -->\n"
END = "<!-- written by `make house`: end -->\n"

_MODULES_HEAD = """\
# Rooms and modules

Every module of lakewright with the first sentence of its docstring, from the lowest floor to the highest. A module
imports its own room and the floors below it (`0001-the-house.md`). `make house` writes this page: change the
docstrings, not the page.
"""


def first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, or of a folder's, on one line."""
    file = path / "__init__.py" if path.is_dir() else path
    paragraph = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return (sentence + stop).strip().replace("|", "\\|")


def with_floors_table(page: str, floors: Sequence[str] = FLOORS) -> str:
    """Return the page with the table between its two marks written anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + "".join(f"{line}\n" for line in _floors_table(floors)) + end + after


def modules_page(floors: Sequence[str] = FLOORS) -> str:
    """Return the page of all rooms, sub-rooms and modules."""
    return _MODULES_HEAD + "".join(
        f"{line}\n" for number, rooms in enumerate(floors) for room in _built(rooms) for line in _room(number, room)
    )


def _floors_table(floors: Sequence[str]) -> Iterator[str]:
    yield "| floor | room | what it is | sub-rooms |"
    yield "| --- | --- | --- | --- |"
    for number, rooms in enumerate(floors):
        for room in _built(rooms):
            place = _place(room)
            inside = ", ".join(f"`{folder.name}`" for folder in _folders(place))
            yield f"| {number} | {_shown(place)} | {first_sentence(place)} | {inside} |"


def _room(number: int, room: str) -> Iterator[str]:
    place = _place(room)
    yield from ("", f"## Floor {number}: {_shown(place)}", "", first_sentence(place))
    if place.is_dir():
        yield from _modules_table(place)
        yield from _sub_rooms(place)


def _sub_rooms(place: Path) -> Iterator[str]:
    for folder in _folders(place):
        yield from ("", f"### {_shown(folder)}", "", first_sentence(folder))
        yield from _modules_table(folder)
        yield from _sub_rooms(folder)


def _modules_table(folder: Path) -> Iterator[str]:
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    if modules:
        yield from ("", "| module | what it does |", "| --- | --- |")
        yield from (f"| `{path.stem}` | {first_sentence(path)} |" for path in modules)


def _built(rooms: str) -> list[str]:
    """Return the rooms of a floor that have sources: a floor may name one that is still to come."""
    return [room for room in rooms.split() if _place(room).exists()]


def _place(room: str) -> Path:
    folder = SOURCE / room
    return folder if folder.is_dir() else folder.with_suffix(".py")


def _folders(place: Path) -> list[Path]:
    return sorted(path.parent for path in place.glob("*/__init__.py"))


def _shown(place: Path) -> str:
    return f"`{place.relative_to(SOURCE)}{'/' if place.is_dir() else ''}`"


def main() -> None:
    """Write all tables and the page of options anew."""
    FLOORS_PAGE.write_text(with_floors_table(FLOORS_PAGE.read_text()))
    MODULES_PAGE.write_text(modules_page())
    options_page.main()
    versions_page.PAGE.write_text(versions_page.with_versions_table(versions_page.PAGE.read_text()))


if __name__ == "__main__":
    main()
