"""Build hook: wheels, and checkouts installed with ``pip install -e``, get the compiled copies of hot modules.

Where they cannot be built (no C compiler, no headers of Python) the package is installed without, says so under
``pip install -v``, and runs everything from source: the same results, two to three times slower.
``HATCH_BUILD_NO_HOOKS=1`` leaves them out on purpose.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileHook(BuildHookInterface[Any]):
    """Runs ``scripts/compile.py`` in front of every build of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add what came of it to the wheel.

        Args:
            version: ``standard``, or ``editable``, whose wheel only points to the checkout.
            build_data: what goes into the wheel.
        """
        root = Path(self.root)
        folder = root / "sim" / "servetwin" / "_compiled"
        done = subprocess.run(
            [sys.executable, str(root / "scripts" / "compile.py"), "--out", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.app.display_warning(
                f"the hot modules were not compiled; everything runs from source.\n{done.stdout}{done.stderr}"
            )
            return
        if version == "editable":
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in sorted(folder.iterdir()):
            build_data["force_include"][str(path)] = f"servetwin/_compiled/{path.name}"
