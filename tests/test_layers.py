"""Imports run one way: a package imports itself and packages of lower layers, optional packages only where listed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "lakewright"
# Packages and modules directly below src/lakewright, from the lowest layer to the highest.
LAYERS = [
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
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages.split()}
# Which package may import an optional package; others may name it for a type checker alone.
OPTIONAL = {"pyspark": "spark", "ray": "ray", "rich": "cli", "torch": "torch", "polars": "frames"}
OPTIONAL |= {"sqlglot": "statements", "prompt_toolkit": "cli", "click": "cli"}
OPTIONAL |= {"opentelemetry": "otel", "urllib3": "rest", "psycopg": "jdbc", "pymysql": "jdbc"}
# Imports inside functions: engines and catalogs that need another package are loaded when a user asks for them. They
# are the only imports of a higher layer.
LAZY_IMPORTS = {
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
# Packages whose `__init__` lists names for users; those of `spark` are loaded when they are first used.
PUBLIC = {*OPTIONAL.values(), "pypaimon"}
BY_STRING = {"import_module", "__import__"}


@dataclass(frozen=True)
class Import:
    """One imported module, and how: at the top, inside a function, or for a type checker alone."""

    module: str
    line: int
    in_function: bool
    for_types: bool


def _found_imports(node: ast.AST, *, in_function: bool = False, for_types: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typed = for_types or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
        if isinstance(child, ast.ImportFrom) and child.module:
            # `from lakewright.update import verbs` names a module as well as its package.
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


PARSED = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
MODULES = [path for path in PARSED if path.name != "__init__.py"]
IMPORTS = {path: list(_found_imports(PARSED[path])) for path in MODULES}


def _package(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _dotted(path: Path) -> str:
    return ".".join(("lakewright", *path.relative_to(SOURCE).with_suffix("").parts))


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(SOURCE)}:{line}"


def test_every_package_has_a_layer() -> None:
    packages = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert packages - {"__init__"} == LAYER.keys()


def test_packages_import_only_lower_layers() -> None:
    offenders = [
        f"{_place(path, found.line)} imports {found.module}"
        for path, imports in IMPORTS.items()
        for found in imports
        if found.module.split(".")[0] == "lakewright"
        and not found.in_function
        and not _may_import(_package(path), found.module)
    ]
    assert not offenders, "\n".join(["", *offenders])


def _may_import(package: str, module: str) -> bool:
    _, _, inside = module.partition(".")
    other = inside.split(".")[0]
    return other != "" and (other == package or LAYER[other] < LAYER[package])


def test_optional_packages_are_imported_only_where_listed() -> None:
    offenders = [
        f"{_place(path, found.line)} imports {found.module}"
        for path, imports in IMPORTS.items()
        for found in imports
        if OPTIONAL.get(found.module.split(".")[0], _package(path)) != _package(path) and not found.for_types
    ]
    assert not offenders, "\n".join(["", *offenders])


def test_imports_inside_functions_are_listed() -> None:
    lazy = {
        (_dotted(path).removeprefix("lakewright."), found.module.removeprefix("lakewright."))
        for path, imports in IMPORTS.items()
        for found in imports
        if found.in_function and found.module.startswith("lakewright")
    }
    assert sorted(lazy - LAZY_IMPORTS) == [], "import at the top, or list the lazy import"
    assert sorted(LAZY_IMPORTS - lazy) == [], "listed, but not in the sources"


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


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    edges = {_dotted(path): {i.module for i in IMPORTS[path] if not i.in_function} for path in MODULES}
    assert not (cycle := _cycle(edges)), " -> ".join(cycle)


def test_subpackages_do_not_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for path in MODULES:
        here = _dotted(path).rpartition(".")[0]
        for found in IMPORTS[path]:
            there = found.module.rpartition(".")[0]
            if not found.in_function and there != here and here.count(".") == there.count(".") == 2:
                edges.setdefault(here, set()).add(there)
    assert not (cycle := _cycle(edges)), " -> ".join(cycle)


def _cycle(edges: dict[str, set[str]]) -> list[str]:
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
