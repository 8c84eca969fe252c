"""The pages of public names in the site: names and their docstrings in, markdown out.

The build of the site makes them (`support/site_hooks.py`), so they are never older than the docstrings. The sources are
read, not imported, so that no engine has to be installed. What a class inherits is listed with its own, unless the
class above it is public too.
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

# Which room's names stand under which heading, in this order.
SECTIONS = {
    "Calls": "calls frames statements",
    "Catalogs": "catalog",
    "Tables": "table",
    "Writes and commits": "write commit",
    "Reads": "read",
    "Row changes": "update",
    "Ingest, copy and migrate": "ingestion",
    "Upkeep": "compact maintenance verify metadata metrics diagnosis",
    "Schemas, types and predicates": "spec",
    "Errors": "errors",
}
# Names that are loaded when they are named, and so not in `public.py`.
LATE = {
    "SQLContext": "lakewright.statements.embedded.context",
    "sql": "lakewright.statements.embedded.context",
    "scan_polars": "lakewright.frames.polars",
    "duckdb_relation": "lakewright.frames.duckdb",
    "RESTCatalog": "lakewright.catalog.rest",
    "JdbcCatalog": "lakewright.catalog.jdbc",
}
ENGINES = {"lakewright.spark": "Spark", "lakewright.ray": "Ray", "lakewright.torch": "PyTorch"}
_HEAD = """\
# API

Every public name of `lakewright`, from the docstrings, whose examples run as tests. `lakewright.pypaimon` has
[the names of pypaimon](../pypaimon.md).

"""


@dataclass(frozen=True)
class Public:
    """A public name: where it is defined, and what it is."""

    name: str
    module: str
    node: ast.stmt

    @property
    def room(self) -> str:
        """The room that it comes from."""
        return self.module.split(".")[1]


def api_pages() -> dict[str, str]:
    """Return the pages by their names."""
    sections = {title: [it for it in public_names() if it.room in rooms.split()] for title, rooms in SECTIONS.items()}
    for module, title in ENGINES.items():
        sections[title] = [Public(name, *_definition(module, name)) for name in sorted(_exported(module))]
    pages = {_slug(title): f"# {title}\n\n" + "\n".join(map(_described, names)) for title, names in sections.items()}
    index = [f"- [{title}]({_slug(title)}): {_links(title, names)}" for title, names in sections.items()]
    return {"index.md": _HEAD + "\n".join(index) + "\n"} | pages


@cache
def public_names() -> list[Public]:
    """Return the names that `lakewright` itself has, sorted."""
    imported = _imports("lakewright.public") | LATE
    return [Public(name, *_definition(module, name)) for name, module in sorted(imported.items()) if name[0] != "_"]


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-") + ".md"


def _links(title: str, names: list[Public]) -> str:
    return ", ".join(f"[`{it.name}`]({_slug(title)}#{it.name.lower()})" for it in names)


@cache
def _tree(module: str) -> ast.Module:
    path = SOURCES / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def _imports(module: str) -> dict[str, str]:
    """Return the names that a module imports from ours, with the module of each."""
    nodes = [node for node in ast.walk(_tree(module)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if node.module is not None and node.module.startswith("lakewright")]
    return {alias.asname or alias.name: str(node.module) for node in ours for alias in node.names if alias.name != "*"}


def _exported(module: str) -> list[str]:
    """Return the public names of a module: `__all__`, or what it defines."""
    for node in _tree(module).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    nodes = [node for node in _tree(module).body if isinstance(node, FUNCTION | ast.ClassDef)]
    return [node.name for node in nodes if not node.name.startswith("_")]


def _definition(module: str, name: str) -> Found:
    """Return where a name is defined, following imports."""
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
    shown = [f"## {node.name}\n", _text(node)]
    above = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in _public_classes()]
    if above:
        shown += [f"It has what `{'`, `'.join(above)}` has, and:\n"]
    fields, methods = _members(module, node)
    if fields:
        shown += ["Fields: " + ", ".join(f"`{name}: {kind}`" for name, kind in fields.items()) + ".\n"]
    for name, method in methods.items():
        call = name if _is(method, "property") else f"{name}({_plain(method.args)})"
        shown += [f"**`{call}`**\n\n{_text(method)}"]
    return "\n".join(shown)


def _members(
    module: str, node: ast.ClassDef
) -> tuple[dict[str, str], dict[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Return the public fields of a frozen value, and the public methods of a class and of those it inherits from."""
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


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a call with all types, one argument a line where it is long."""
    arguments = ast.unparse(node.args)
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    one_line = f"{node.name}({arguments}){returned}"
    if len(one_line) <= LINE_MAX:
        return one_line
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return "\n".join([f"{node.name}(", *(f"    {part.strip()}," for part in parts), f"){returned}"])


def _plain(arguments: ast.arguments) -> str:
    """Return arguments without their types, as one calls a method."""
    copied = ast.parse(f"def f({ast.unparse(arguments)}): ...").body[0]
    assert isinstance(copied, ast.FunctionDef)
    for argument in ast.walk(copied.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return re.sub(r"^(self|cls)(, )?(/(, )?)?", "", ast.unparse(copied.args))


def _fenced(code: str, language: str = "py") -> str:
    code = code.replace("'", '"') if language == "py" else code  # as the formatter writes it
    return f"```{language}\n{code}\n```\n"


def _text(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Return a docstring as markdown: its examples in a box."""
    shown = list(_paragraphs(ast.get_docstring(node) or ""))
    return "\n".join(shown)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\n+", text):
        if paragraph.lstrip().startswith(">>>"):
            yield _fenced(paragraph, "pycon")
        elif paragraph.strip():
            yield paragraph.replace("<", "&lt;") + "\n" if "`" not in paragraph else paragraph + "\n"
