"""`install()`: after it, `import pypaimon` and its module paths find the names of `lakewright.pypaimon`.

The modules are made when they are imported. A path that pypaimon has and this library has not is a
ModuleNotFoundError that says so, never a half-filled module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from lakewright.errors import InvalidInputError
from lakewright.pypaimon.modules import module_names

_PEER = "pypaimon"
_FACE = "lakewright.pypaimon"
# Modules of pypaimon that modules of the face stand for, imported when a script asks for them.
_ROOMS = {
    "ray": "ray",
    "ray.data_evolution_merge_into": "ray",
    "ray.ray_paimon": "ray",
    "write.ray_datasink": "ray",
}


def install() -> None:
    """Make `import pypaimon`, in this process, give lakewright's names; a script for pypaimon then runs unchanged.

    A second call does nothing. Where the real pypaimon is imported already, its objects are in use: that is an error.

    >>> import lakewright.pypaimon
    >>> lakewright.pypaimon.install()
    >>> from pypaimon.schema.data_types import AtomicType
    >>> str(AtomicType("INT"))
    'INT'
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if _PEER in sys.modules:
        raise InvalidInputError(
            f"the real pypaimon is imported already, from {getattr(sys.modules[_PEER], '__file__', 'somewhere')}: "
            "call lakewright.pypaimon.install() before the first import of pypaimon"
        )
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Answers for `pypaimon` and every module below it, so that none of the real one is mixed in."""

    def __init__(self) -> None:
        self._names = module_names()
        paths = (*self._names, *_ROOMS)
        self._packages = {"", *(".".join(path.split(".")[:n]) for path in paths for n in range(1, path.count(".") + 1))}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        if fullname != _PEER and not fullname.startswith(f"{_PEER}."):
            return None
        inner = fullname.removeprefix(_PEER).removeprefix(".")
        is_package = inner in self._packages or inner in _ROOMS
        if inner in self._names or is_package:
            return ModuleSpec(fullname, _FaceLoader(inner, self._names.get(inner, ())), is_package=is_package)
        if path:  # somebody added a directory to this package
            return None
        raise ModuleNotFoundError(
            f"lakewright stands in for pypaimon here and has no module {fullname!r}; it has: "
            f"{', '.join(sorted(f'{_PEER}.{known}' for known in self._names if known))}",
            name=fullname,
        )


class _FaceLoader(Loader):
    """Fills one module with names of the face."""

    def __init__(self, inner: str, names: tuple[str, ...]) -> None:
        self._inner = inner
        self._names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        if self._inner in _ROOMS:
            room = importlib.import_module(f"{_FACE}.{_ROOMS[self._inner]}")
            module.__dict__.update({name: getattr(room, name) for name in room.__all__}, __all__=list(room.__all__))
            return
        face = importlib.import_module(_FACE)
        module.__dict__.update({name: getattr(face, name) for name in self._names}, __all__=list(self._names))
