"""Imports the compiled copies of modules, as long as they were made from today's sources.

``scripts/compile.py`` compiles what runs once per event into ``servetwin/_compiled``. A finder in front of Python's
own hands these out instead of the sources, all of them or none: they know each other's layout. Results are the same
bytes either way; only the speed differs. ``SERVETWIN_COMPILED=0`` in the environment has everything run from source,
for a debugger or a profiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_PACKAGE = Path(__file__).parent
_FOLDER = _PACKAGE / "_compiled"

#: The library that holds the code of all compiled modules, under the name that mypyc gives it.
_LIBRARY = "servetwin__mypyc"


class CompiledFinder:
    """Finds compiled modules in a folder: a finder for ``sys.meta_path``.

    Args:
        folder: what ``scripts/compile.py`` filled.
        package: the folder of the sources.
    """

    def __init__(self, folder: Path, package: Path) -> None:
        self._folder = folder
        self._suffix = EXTENSION_SUFFIXES[0]
        self._modules = self._fresh(package)

    @property
    def modules(self) -> Sequence[str]:
        """The modules that are handed out; none where there are none for this Python, or a source has changed."""
        return tuple(self._modules)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiled copy of a module, or None to go on with its source."""
        if fullname not in self._modules and not (fullname == _LIBRARY and self._modules):
            return None
        return spec_from_file_location(fullname, self._folder / f"{fullname}{self._suffix}")

    def _fresh(self, package: Path) -> frozenset[str]:
        try:
            hashes = json.loads((self._folder / f"manifest{self._suffix}.json").read_text(encoding="utf-8"))
            if not isinstance(hashes, dict):
                return frozenset()
            fresh = all(hashlib.sha256(_source(package, name).read_bytes()).hexdigest() == found
                        for name, found in hashes.items())  # fmt: skip
        except (OSError, ValueError):
            return frozenset()
        return frozenset(hashes) if fresh else frozenset()


def _source(package: Path, module: str) -> Path:
    return package.parent.joinpath(*module.split(".")).with_suffix(".py")


def install() -> None:
    """Hand out compiled modules from now on, where there are any."""
    if os.environ.get("SERVETWIN_COMPILED") != "0":
        finder = CompiledFinder(_FOLDER, _PACKAGE)
        if finder.modules:
            sys.meta_path.insert(0, finder)


def in_use() -> bool:
    """Whether compiled modules are handed out."""
    return any(isinstance(finder, CompiledFinder) for finder in sys.meta_path)
