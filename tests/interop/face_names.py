"""Run by the peers' interpreter: prints, as JSON, the public classes, functions and arguments of modules of pypaimon.

The modules are named as arguments, without `pypaimon.` in front. It imports nothing of lakewright.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys


def arguments(function: object) -> list[str] | None:
    """Return the names of the arguments; None where Python cannot tell them."""
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.kind not in variadic and p.name not in {"self", "cls"}]


def members(kind: type) -> dict[str, list[str] | None]:
    """Return the public members of a class, with the arguments of its methods; None for attributes."""
    found: dict[str, list[str] | None] = {}
    for name in dir(kind):
        if name.startswith("_") or any(name in vars(base) for base in (object, Exception, str, tuple)):
            continue
        value = getattr(kind, name)
        found[name] = arguments(value) if inspect.isroutine(value) else None
    if "__init__" in vars(kind):
        found["__init__"] = arguments(vars(kind)["__init__"])
    return found


def described(module_name: str) -> dict[str, object]:
    """Return what a module itself defines, or names in `__all__`."""
    module = importlib.import_module(module_name)
    listed = set(getattr(module, "__all__", ()))
    found: dict[str, object] = {}
    for name in sorted({*vars(module), *listed}):
        if name.startswith("_"):
            continue
        try:
            value = getattr(module, name)
        except ImportError:
            continue
        own = getattr(value, "__module__", module_name) == module_name
        if inspect.ismodule(value) or (name not in listed and not (own and (callable(value) or name.isupper()))):
            continue
        found[name] = {"members": members(value)} if isinstance(value, type) else {"arguments": arguments(value)}
    return found


if __name__ == "__main__":
    json.dump({path: described(f"pypaimon.{path}".rstrip(".")) for path in sys.argv[1:]}, sys.stdout)
