"""Make the API pages of the site from the public names and their docstrings.

The site is built with them (`support/site_hooks.py`). The sources are parsed, not imported, so that no engine has to be
installed. Inherited members are listed with the class, unless the base class is public too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

SOURCES = Path(__file__).parents[2] / "src"
LINE_MAX = 100
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
Found: TypeAlias = "tuple[str, ast.stmt]"  # the module that defines a name, and its definition

# The pages, and the packages whose names each of them has.
SECTIONS = {
    "Calls": "verbs integrations statements",
    "Catalogs": "catalog",
    "Tables": "table",
    "Writes and commits": "write commit engine",
    "Reads": "read formats",
    "Row changes": "dml",
    "Ingest, copy and migrate": "ingestion",
    "Upkeep": "compact maintenance metadata metrics diagnosis",
    "Schemas, types and predicates": "spec",
    "Errors": "errors",
}
# The first sentence of each page.
ABOUT = {
    "Calls": "Functions that do a task in one call: write rows, read rows, run SQL.",
    "Catalogs": "Create, find, rename and drop databases and tables.",
    "Tables": "The table object that `catalog.get_table` returns, and its builders of writes and merges.",
    "Writes and commits": "Arguments and results of writes, and commit messages.",
    "Reads": "Read builders, plans, splits and streams.",
    "Row changes": "Arguments and results of deletes, updates, upserts and merges.",
    "Ingest, copy and migrate": "Load files, turn directories into tables, copy tables.",
    "Upkeep": "Results of compaction, expiry, verification and statistics, the diagnosis, and the metrics hook.",
    "Schemas, types and predicates": "Columns, types, options, filters, snapshots and files.",
    "Errors": "All errors form one tree: `except` with a name also catches the names below it. "
    "[What to do about each](../operate.md#what-to-do-on-each-error).",
    "Spark": "`import lakewright.spark as lws`: the same functions for DataFrames, run by the workers of a session.",
    "Ray": "`import lakewright.ray as lwr`: the same functions for datasets, run by the workers of a cluster.",
    "PyTorch": "`lakewright.integrations.torch_datasets`: rows as tensors, divided among ranks and workers.",
}
# The names that a page lists first; the others follow in alphabetical order.
FIRST = (
    "read_table write_table sql SQLContext Catalog CatalogFactory open_table FileStoreTable BatchWriteBuilder "
    "ReadBuilder MergeBuilder ingest create_table_from copy_table migrate diagnose Schema Predicate PredicateBuilder "
    "LakewrightError local_session to_torch"
).split()
# Classes that users instantiate, so that the arguments of their constructor are shown.
MADE = {"SQLContext", "Schema", "Identifier", "ArrayType", "MapType", "RowType"}
# Methods for the engines of the library, which are not shown.
INNER = {
    "SQLContext": "compact is_hidden refresh_view at table_settings moment rows query write change other each run "
    "analyze resolve changeable not_found",
    "FileStoreTable": "store",
}
ENGINES = {"lakewright.spark": "Spark", "lakewright.ray": "Ray", "lakewright.integrations.torch_datasets": "PyTorch"}
_HEAD = """\
# API

All public names of `lakewright`, from the docstrings. `lakewright.pypaimon` has
[the names of pypaimon](../from-pypaimon.md).

"""


def _lazy_names(table: str) -> dict[str, str]:
    """Return the names of one of the tables in `lakewright/__init__.py`, with the module of each."""
    for node in ast.walk(ast.parse((SOURCES / "lakewright" / "__init__.py").read_text())):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == table:
            return {str(key): str(value) for key, value in ast.literal_eval(node.value).items()}
    raise LookupError(table)


# Names outside of `__all__` that `lakewright` finds: what needs another library, and classes by their topic.
LATE = _lazy_names("_BY_KIND")
BY_TOPIC = {
    name: f"lakewright.{module}" for module, names in _lazy_names("_BY_TOPIC").items() for name in names.split()
}


@dataclass(frozen=True)
class Public:
    """A public name, with its module and definition."""

    name: str
    module: str
    node: ast.stmt

    @property
    def package(self) -> str:
        """Return the package that the name is defined in."""
        parts = self.module.split(".")
        return "verbs" if parts[2:] in (["verbs"], ["open_table"]) else parts[1]


def api_pages() -> dict[str, str]:
    """Return the text of each page by file name."""
    sections = {
        title: [it for it in public_names() if it.package in packages.split()] for title, packages in SECTIONS.items()
    }
    for module, title in ENGINES.items():
        sections[title] = [Public(name, *_definition(module, name)) for name in sorted(_exported(module))]
    sections = {title: sorted(names, key=_place) for title, names in sections.items()}
    pages = {
        _slug(title): f"# {title}\n\n{ABOUT[title]}\n\n" + "\n".join(map(_described, names))
        for title, names in sections.items()
    }
    pages["errors.md"] = pages["errors.md"].replace("\n\n## ", f"\n\n{_tree_of_errors()}\n\n## ", 1)
    index = [
        f"## [{title}]({_slug(title)})\n\n{ABOUT[title]}\n\n{_links(title, names)}\n"
        for title, names in sections.items()
    ]
    return {"index.md": _HEAD + "\n".join(index)} | pages


def _place(public: Public) -> tuple[int, str]:
    return FIRST.index(public.name) if public.name in FIRST else len(FIRST), public.name


def _tree_of_errors() -> str:
    """Return the tree of the errors as a nested list."""
    nodes = {it.name: it.node for it in public_names() if it.package == "errors"}
    above = {name: _public_above(node) for name, node in nodes.items() if isinstance(node, ast.ClassDef)}

    def lines(name: str, depth: int) -> Iterator[str]:
        yield f"{'    ' * depth}- [`{name}`](#{name.lower()})"
        for below in sorted(it for it, bases in above.items() if name in bases):
            yield from lines(below, depth + 1)

    return "\n".join(lines("LakewrightError", 0))


@cache
def public_names() -> list[Public]:
    """Return the names that `lakewright` finds, sorted."""
    imported = _imports("lakewright.public") | LATE | BY_TOPIC
    return [Public(name, *_definition(module, name)) for name, module in sorted(imported.items()) if name[0] != "_"]


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-") + ".md"


def _links(title: str, names: list[Public]) -> str:
    return " · ".join(f"[`{it.name}`]({_slug(title)}#{it.name.lower()})" for it in names)


@cache
def _tree(module: str) -> ast.Module:
    path = SOURCES / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def _imports(module: str) -> dict[str, str]:
    """Return the names that a module imports from lakewright, with the module of each."""
    nodes = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if node.module is not None and node.module.startswith("lakewright")]
    return {alias.asname or alias.name: str(node.module) for node in ours for alias in node.names if alias.name != "*"}


def _exported(module: str) -> list[str]:
    """Return the public names of a module: `__all__`, or the names that it defines."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    nodes = [node for node in _tree(module).body if isinstance(node, FUNCTION | ast.ClassDef)]
    return [node.name for node in nodes if not node.name.startswith("_")]


def _definition(module: str, name: str) -> Found:
    """Return the module and the definition of a name, following imports."""
    for node in _tree(module).body:
        named = isinstance(node, FUNCTION | ast.ClassDef) and node.name == name
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if named or getattr(target, "id", None) == name:
            return module, node
    return _definition(_imports(module)[name], name)


def _described(public: Public) -> str:
    match public.node:
        case ast.ClassDef() as node:
            return _class(public.module, node)
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            return f"## {node.name}\n\n{_fenced(_signature(node))}\n{_text(node)}"
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return f"## {public.name}\n\n{_fenced(f'{public.name} = {ast.unparse(value)}')}"
        case other:
            raise TypeError(other)


def _class(module: str, node: ast.ClassDef) -> str:
    shown = [f"## {node.name}\n"]
    above = [f"[`{name}`]({_where(name)})" for name in _public_above(node)]
    if above:
        shown += [f"A kind of {', '.join(above)}.\n"]
    made = [it for it in node.body if isinstance(it, FUNCTION) and it.name == "__init__" and node.name in MADE]
    shown += [_fenced(_signature(it, node.name)) for it in made]
    shown += [_text(node)]
    fields, methods = _members(module, node)
    inner = INNER.get(node.name, "").split()
    if fields := {name: kind for name, kind in fields.items() if name not in inner}:
        shown += ["Fields:\n", *(f"- `{name}: {_double(kind)}`" for name, kind in fields.items()), ""]
    for name, method in methods.items():
        if name not in inner:
            shown += [f"### {name} {{ #{node.name}.{name} }}\n\n{_fenced(_signature(method))}\n{_text(method)}"]
    return "\n".join(shown)


def _public_above(node: ast.ClassDef) -> list[str]:
    """Return the public base classes of a class, also those behind a private base class."""
    names = [base.id for base in node.bases if isinstance(base, ast.Name)]
    direct = [name for name in names if name in _public_classes()]
    if direct or not any(_is_ours("lakewright.errors", name) for name in names):
        return direct
    hidden = [_definition("lakewright.errors", name)[1] for name in names if _is_ours("lakewright.errors", name)]
    return [above for it in hidden if isinstance(it, ast.ClassDef) for above in _public_above(it)]


def _where(name: str) -> str:
    package = next(it.package for it in public_names() if it.name == name)
    title = next(title for title, packages in SECTIONS.items() if package in packages.split())
    return f"{_slug(title)}#{name.lower()}"


def _members(
    module: str, node: ast.ClassDef
) -> tuple[dict[str, str], dict[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the public fields of a dataclass, and the public methods of a class with the inherited ones."""
    fields: dict[str, str] = {}
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is(node, "dataclass"):
            fields[item.target.id] = ast.unparse(item.annotation)
        elif isinstance(item, FUNCTION) and not _is(item, "overload") and not _is(item, "setter"):
            methods[item.name] = item
    for base in node.bases:
        above = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(above, ast.Name) and _is_ours(module, above.id) and above.id not in _public_classes():
            place, inherited = _definition(module, above.id)
            assert isinstance(inherited, ast.ClassDef)
            more_fields, more = _members(place, inherited)
            fields, methods = more_fields | fields, methods | {k: v for k, v in more.items() if k not in methods}
    shown = {name: method for name, method in methods.items() if not name.startswith("_") and ast.get_docstring(method)}
    return {name: kind for name, kind in fields.items() if not name.startswith("_") and "ClassVar" not in kind}, shown


def _public_classes() -> set[str]:
    return {it.name for it in public_names() if isinstance(it.node, ast.ClassDef)}


def _is_ours(module: str, name: str) -> bool:
    own = [node.name for node in _tree(module).body if isinstance(node, ast.ClassDef)]
    return name in own or name in _imports(module)


def _is(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, decorator: str) -> bool:
    return any(re.search(rf"\b{decorator}\b", ast.unparse(it)) for it in node.decorator_list)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, made: str = "") -> str:
    """Return the signature with types, wrapped if it is long; `made` is the name of the class of a constructor."""
    name, returned = made or node.name, f" -> {ast.unparse(node.returns)}" if node.returns and not made else ""
    if _is(node, "property"):
        return f"{name}{returned.replace(' -> ', ': ')}"
    parts = [part for part in _arguments(node) if part not in ("self", "cls", "/")]
    one_line = f"{name}({', '.join(parts)}){returned}"
    if len(one_line) <= LINE_MAX:
        return one_line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returned}"])


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the arguments one by one, with the spacing of the formatter."""
    parts, depth = [""], 0
    for character in ast.unparse(node.args):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += " = " if character == "=" and depth == 0 and ":" in parts[-1] else character
    return [part.strip() for part in parts if part.strip()]


def _double(code: str) -> str:
    """Return code with double quotes."""
    return code.replace("'", '"')


def _fenced(code: str, language: str = "py") -> str:
    code = _double(code) if language == "py" else code
    return f"```{language}\n{code}\n```\n"


def _text(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return a docstring as markdown, with its examples as code blocks."""
    shown = list(_paragraphs(ast.get_docstring(node) or ""))
    return "\n".join(shown)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\n+", text):
        if paragraph.lstrip().startswith(">>>"):
            yield _fenced(paragraph, "pycon")
        elif paragraph.strip():
            yield paragraph.replace("<", "&lt;") + "\n" if "`" not in paragraph else paragraph + "\n"
