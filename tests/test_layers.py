"""The floors and budgets of the house: a room that reaches up, or a function too long for a screen, fails here."""

from __future__ import annotations

import ast
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import lakewright as lw

SOURCE = Path(__file__).parent.parent / "src" / "lakewright"
FLOORS = [
    "errors version",
    "metrics display",
    "spec",
    "storage formats",
    "metadata lsm datafiles",
    "commit read",
    "compact rest jdbc",
    "write",
    "update",
    "maintenance",
    "verify report",
    "table",
    "catalog",
    "calls",
    "distributed",
    "ingestion diagnosis",
    "statements",
    "spark ray torch frames otel public",
    "cli pypaimon",
    "__main__ testing",
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms.split()}
OPTIONAL = {"pyspark": "spark", "ray": "ray", "rich": "cli", "torch": "torch", "polars": "frames"}
OPTIONAL |= {"sqlglot": "statements", "prompt_toolkit": "cli", "click": "cli"}
OPTIONAL |= {"opentelemetry": "otel", "urllib3": "rest", "psycopg": "jdbc", "pymysql": "jdbc"}

MODULES_MAX = 580  # SQL statements, the meaning of Spark in DuckDB, upkeep, plans as columns, commands, metrics
FOLDER_MODULES_MAX = 15
MODULE_LINES_MAX = 600
MODULE_LINES_MEDIAN_MAX = 200
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 6
DEPTH_MAX = 3
# One append of three rows; the first guess was 30 and 250 (see design/0001).
APPEND_MODULES_MAX = 55  # calls side by side on stores far away, the base looked for early, lists kept decoded, metrics
APPEND_FUNCTIONS_MAX = 450  # calls that may be made side by side are functions of their own

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
PARSED = {path: ast.parse(path.read_text()) for path in MODULES}
# Where an engine's room, above, or a catalog that needs another package is loaded when a user asks for it: all of
# the imports inside functions, and the only ones upwards.
DOORS = {
    ("storage.open", "storage.hdfs"),
    ("catalog.factory", "catalog.rest"),
    ("catalog.factory", "catalog.jdbc"),
    ("pypaimon.catalog", "pypaimon.servers"),
    ("diagnosis.run", "spark.jobs.diagnosis"),
    ("read.builder", "spark.read.frame"),
    ("read.builder", "ray.read"),
    ("read.builder", "torch"),
    ("commit.committer", "maintenance.after_commit"),
    ("write.input.frames", "spark"),
    ("write.input.frames", "ray"),
    ("table.write_builder", "spark.write.frame"),
    ("table.write_builder", "ray.write"),
    ("cli.main", "cli.program"),
    ("cli.program", "cli.base.secrets"),
    ("cli.base.command", "cli.base.place"),
    ("cli.objects.columns", "statements.parse.clauses"),
    ("cli.objects.columns", "statements.parse.cursor"),
    ("cli.objects.columns", "statements.text"),
    ("cli.data.ingest", "spark.ingestion.run"),
    ("cli.data.ingest", "spark.jobs.launch"),
    ("cli.look.doctor", "spark.jobs.launch"),
    ("cli.shell.sql", "cli.shell.statements"),
    ("cli.shell.sql", "cli.shell.prompt"),
    ("cli.shell.sql", "statements.embedded.context"),
    ("cli.shell.sql", "spark.statements.context"),
    ("cli.shell.sql", "spark.jobs.launch"),
    ("cli.shell.statements", "spark.jobs.frames"),
}


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@dataclass(frozen=True)
class Import:
    """One imported module, and how: at the top, inside a function (a door), or for a type checker alone."""

    module: str
    line: int
    in_function: bool = False
    for_types: bool = False


def _found_imports(node: ast.AST, *, in_function: bool = False, for_types: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typed = for_types or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
        if isinstance(child, ast.ImportFrom) and child.module:
            # `from lakewright.update import verbs` names a module as well as its room.
            names = [f"{child.module}.{alias.name}" for alias in child.names]
            modules = [name for name in names if _is_module(name)] or [child.module]
            yield from (Import(module, child.lineno, inside, typed) for module in modules)
        elif isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, inside, typed) for alias in child.names)
        yield from _found_imports(child, in_function=inside, for_types=typed)


def _is_module(dotted: str) -> bool:
    parts = dotted.split(".")
    path = SOURCE.joinpath(*parts[1:])
    return parts[0] == "lakewright" and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _depth(node: ast.AST) -> int:
    """Return how many blocks are nested below a node; `elif` and the cases of a match do not nest."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        below = _depth(child)
        nests = isinstance(child, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match)
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        deepest = max(deepest, below + (1 if nests and not is_elif else 0))
    return deepest


def test_every_room_has_a_floor() -> None:
    assert {_room(path) for path in MODULES} <= FLOOR.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_itself_and_lower_floors(path: Path) -> None:
    room = _room(path)
    for found in IMPORTS[path]:
        if not found.module.startswith("lakewright") or found.in_function:
            continue
        assert found.module != "lakewright", f"{path.name} imports the whole package"
        other = found.module.split(".")[1]
        assert other == room or FLOOR[other] < FLOOR[room], f"{room} reaches up or sideways to {found.module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_engines_are_imported_only_in_their_own_room(path: Path) -> None:
    for found in IMPORTS[path]:
        owner = OPTIONAL.get(found.module.split(".")[0])
        assert owner in {None, _room(path)} or found.for_types


def test_imports_stand_at_the_top_but_for_the_doors_to_engines() -> None:
    hidden = {
        (_dotted(path), found.module)
        for path, imports in IMPORTS.items()
        for found in imports
        if found.in_function and found.module.startswith("lakewright")
    }
    assert hidden == {(f"lakewright.{module}", f"lakewright.{room}") for module, room in DOORS}
    for path, imports in IMPORTS.items():
        lines = path.read_text().splitlines()
        for found in imports:
            assert not found.in_function or "door" in lines[found.line - 1], f"{path}:{found.line} hides an import"


def test_no_module_of_ours_is_imported_by_a_string() -> None:
    """An import that a checker cannot see may close a cycle."""
    for path in MODULES:
        for node in ast.walk(PARSED[path]):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "__import__"}:
                named = [text for text in ast.walk(node) if isinstance(text, ast.Constant)]
                ours = [str(text.value) for text in named if str(text.value).startswith("lakewright")]
                assert not ours, f"{path}:{node.lineno} imports {ours[0]} by a string"


def test_no_import_cycle() -> None:
    edges = {_dotted(path): {i.module for i in IMPORTS[path] if not i.in_function} for path in MODULES}
    _assert_no_cycle(edges)


def test_no_cycle_of_sub_rooms() -> None:
    """Sub-rooms follow the data too: two of them never import each other."""
    edges: dict[str, set[str]] = {}
    for path in MODULES:
        here = ".".join(_dotted(path).split(".")[:-1])
        for found in IMPORTS[path]:
            there = ".".join(found.module.split(".")[:-1])
            if found.in_function or there == here or "." not in here or "." not in there:
                continue
            if here.count(".") == 2 and there.count(".") == 2:
                edges.setdefault(here, set()).add(there)
    _assert_no_cycle(edges)


def _assert_no_cycle(edges: dict[str, set[str]]) -> None:
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"import cycle: {' -> '.join((*trail, module))}"
        if module not in done:
            for other in edges.get(module, ()):
                visit(other, (*trail, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def _dotted(path: Path) -> str:
    return ".".join(("lakewright", *path.relative_to(SOURCE).with_suffix("").parts))


IMPORTS = {path: list(_found_imports(tree)) for path, tree in PARSED.items()}


def test_modules_keep_their_budget() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in MODULES}
    assert len(lines) <= MODULES_MAX
    assert statistics.median(lines.values()) <= MODULE_LINES_MEDIAN_MAX
    folders = Counter(path.parent for path in MODULES)
    assert {str(folder): n for folder, n in folders.items() if n > FOLDER_MODULES_MAX} == {}
    assert {str(path): n for path, n in lines.items() if n > MODULE_LINES_MAX} == {}


def test_functions_fit_on_a_screen() -> None:
    too_long = [
        f"{path.relative_to(SOURCE)}:{f.lineno} {f.name} {f.end_lineno - f.lineno + 1}"
        for path, tree in PARSED.items()
        for f in _functions(tree)
        if f.end_lineno is not None and f.end_lineno - f.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert too_long == []


def test_functions_are_not_deep() -> None:
    too_deep = [
        f"{path.relative_to(SOURCE)}:{f.lineno} {f.name} {_depth(f)}"
        for path, tree in PARSED.items()
        for f in _functions(tree)
        if _depth(f) > DEPTH_MAX
    ]
    assert too_deep == []


def test_room_init_files_hold_only_a_docstring_or_public_names() -> None:
    """An engine or pypaimon's face is imported by its users, so it lists its names; other rooms are ours alone.

    Names that are loaded when they are asked for stand in an `if TYPE_CHECKING`.
    """
    for path in SOURCE.rglob("__init__.py"):
        if path.parent != SOURCE:
            body = ast.parse(path.read_text()).body
            late = (ast.Import, ast.If) if path.parent.name == "spark" else ()
            names = (ast.ImportFrom, ast.Assign, *late) if path.parent.name in {*OPTIONAL.values(), "pypaimon"} else ()
            assert all(isinstance(node, (ast.Expr, *names)) for node in body), f"{path} holds code"


def calls_of(action: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the functions of ours that an action calls, in all threads: the file below the package, and the name."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            calls.append((str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return calls


def test_an_append_of_three_rows_passes_through_few_hands(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema([lw.DataField(0, "id", lw.AtomicType("INT"))]))
    table = catalog.get_table("d.t")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    seen = {call for call in calls_of(lambda: lw.write_table(rows, table)) if "<" not in call[1].rpartition(".")[2]}
    modules = {file for file, _ in seen}
    assert 10 < len(modules) <= APPEND_MODULES_MAX
    assert 50 < len(seen) <= APPEND_FUNCTIONS_MAX
