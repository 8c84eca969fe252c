"""Imports run one way: a package imports itself, lower layers, and the packages of its own layer to its left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "lakewright"
# Packages and modules directly below src/lakewright, from the lowest layer to the highest; design/0001 has the reasons.
LAYERS = [
    "errors version engine_registry metrics display spec variant",
    "storage formats lsm",
    "metadata",
    "commit read",
    "write engine compact",
    "dml maintenance report",
    "table catalog",
    "ingestion diagnosis statements integrations otel spark ray public pypaimon cli __main__",
]
RANK = {name: (number, place) for number, row in enumerate(LAYERS) for place, name in enumerate(row.split())}
# Which packages may import an optional library; others may name it for a type checker only.
OPTIONAL = {
    "pyspark": "spark",
    "ray": "ray",
    "lance": "formats",
    "torch": "integrations",
    "polars": "integrations",
    "sqlglot": "statements",
    "click": "cli",
    "rich": "cli",
    "prompt_toolkit": "cli",
    "urllib3": "catalog",
    "psycopg": "catalog",
    "pymysql": "catalog",
    "opentelemetry": "otel",
}
# Imports of higher layers, inside functions: an engine or a library of frames is loaded when a user asks for it, and
# upkeep after a commit only where options ask for it.
LAZY_UPWARD = {
    ("commit.committer", "maintenance.upkeep"),
    ("diagnosis", "spark.spark_session"),
    ("engine_registry", "ray"),
    ("engine_registry", "spark"),
    ("read.table_read", "integrations.torch_datasets"),
    ("read.table_read", "ray.dataset_read"),
    ("read.table_read", "spark.frame_read"),
    ("table.write_builder", "ray.dataset_write"),
    ("table.write_builder", "spark.frame_write"),
}
# Packages whose `__init__` lists names for users.
PUBLIC = {"spark", "ray", "pypaimon", "maintenance"}
# Modules that are documented under a name that another module has too.
DOCUMENTED_TWICE = {"ray"}
BY_STRING = {"import_module", "__import__"}


@dataclass(frozen=True)
class Import:
    """One imported module, and how: at the top, inside a function, or for a type checker only."""

    module: str
    line: int
    in_function: bool
    for_types: bool


def _is_module(dotted: str) -> bool:
    parts = dotted.split(".")
    path = SOURCE.joinpath(*parts[1:])
    return parts[0] == "lakewright" and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def _list_imports(node: ast.AST, *, in_function: bool = False, for_types: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typed = for_types or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
        if isinstance(child, ast.ImportFrom) and child.module:
            # `from lakewright.dml import upsert` names a module as well as its package.
            names = [f"{child.module}.{alias.name}" for alias in child.names]
            modules = [name for name in names if _is_module(name)] or [child.module]
            yield from (Import(module, child.lineno, inside, typed) for module in modules)
        elif isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, inside, typed) for alias in child.names)
        yield from _list_imports(child, in_function=inside, for_types=typed)


PARSED = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
MODULES = [path for path in PARSED if path.name != "__init__.py"]
IMPORTS = {path: list(_list_imports(PARSED[path])) for path in MODULES}


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def _package(path: Path) -> str:
    return _dotted(path).split(".")[0]


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(SOURCE)}:{line}"


def _points_upward(path: Path, module: str) -> bool:
    here, there = _package(path), module.partition(".")[2].split(".")[0]
    return here != there and (there == "" or RANK[there] > RANK[here])


def test_every_package_has_a_layer() -> None:
    packages = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert packages - {"__init__"} == RANK.keys()


def test_imports_point_down_or_left() -> None:
    offenders = [
        f"{_place(path, found.line)} imports {found.module}"
        for path, imports in IMPORTS.items()
        for found in imports
        if found.module.split(".")[0] == "lakewright" and not found.in_function and _points_upward(path, found.module)
    ]
    assert not offenders, "\n".join(["", *offenders])


def test_lazy_imports_of_higher_layers_are_listed() -> None:
    lazy = {
        (_dotted(path), found.module.removeprefix("lakewright."))
        for path, imports in IMPORTS.items()
        for found in imports
        if found.in_function and found.module.startswith("lakewright.") and _points_upward(path, found.module)
    }
    assert sorted(lazy - LAZY_UPWARD) == [], "import a lower layer, or list the lazy import with its reason"
    assert sorted(LAZY_UPWARD - lazy) == [], "listed, but not in the sources"


def test_optional_packages_are_imported_only_where_listed() -> None:
    offenders = [
        f"{_place(path, found.line)} imports {found.module}"
        for path, imports in IMPORTS.items()
        for found in imports
        if OPTIONAL.get(found.module.split(".")[0], _package(path)) != _package(path) and not found.for_types
    ]
    assert not offenders, "\n".join(["", *offenders])


def test_no_module_of_lakewright_is_imported_by_a_string() -> None:
    """An import that a checker cannot see may close a cycle."""
    offenders = [
        f"{_place(path, node.lineno)} imports {text.value}"
        for path in MODULES
        for node in ast.walk(PARSED[path])
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) in BY_STRING
        for text in ast.walk(node)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.startswith("lakewright")
    ]
    assert not offenders, "\n".join(["", *offenders])


def test_no_two_modules_share_a_name() -> None:
    """A name that is unique can be searched for."""
    places: dict[str, list[str]] = {}
    for path in PARSED:
        if path.parent != SOURCE or path.name != "__init__.py":
            places.setdefault(path.parent.name if path.name == "__init__.py" else path.stem, []).append(_dotted(path))
    # The interface of a package may have the package's name: `storage/storage.py`.
    shared = {
        name: found
        for name, found in places.items()
        if len(found) > 1 and name not in DOCUMENTED_TWICE and sorted(found) != [f"{name}.__init__", f"{name}.{name}"]
    }
    assert shared == {}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    edges = {f"lakewright.{_dotted(p)}": {i.module for i in IMPORTS[p] if not i.in_function} for p in MODULES}
    assert not (cycle := _find_cycle(edges)), " -> ".join(cycle)


def _find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """Return the modules of one cycle, the first of them again at the end; none where there is no cycle."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_init_files_hold_only_a_docstring_or_public_names() -> None:
    """Code in an `__init__` runs whenever a module of the package is imported."""
    offenders = []
    for path, tree in PARSED.items():
        if path.name == "__init__.py" and path.parent != SOURCE:
            late = (ast.Import, ast.If) if path.parent.name == "spark" else ()
            names = (ast.ImportFrom, ast.Assign, *late) if path.parent.name in PUBLIC else ()
            offenders += [_place(path, node.lineno) for node in tree.body if not isinstance(node, (ast.Expr, *names))]
    assert not offenders, "\n".join(["", *offenders])
