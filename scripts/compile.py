"""Compile the modules that run once per event: ``python scripts/compile.py``.

A simulation spends its time in a few dozen small functions. mypyc (the compiler that mypy and black ship with) turns
their modules, types and all, into a C extension that runs the same code more than twice as fast; the sources stay
what is read, tested and debugged. ``servetwin.compiled`` imports an extension only while the sources it was made
from are unchanged, so after an edit everything runs from source until this is run again.

Needs mypy, setuptools, a C compiler and Python's headers. Building a wheel and ``pip install -e .`` do this by
themselves (``hatch_build.py``) and go without where it does not work.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "sim"

#: Whatever is called per event; nothing that users derive from or replace.
MODULES = (
    "servetwin.request",
    "servetwin.kernel.nap",
    "servetwin.acceptance.drawn",
    "servetwin.acceptance.runs",
    *(f"servetwin.physics.{name}" for name in (
        "protocols", "series", "roofline", "attention", "step_time", "table_attention", "tables", "pipeline",
        "drafting", "speculative_step_time",
    )),
    *(
        f"servetwin.engine.{name}"
        for name in (
            "accounts", "admission", "batch", "blocks", "draft_accounts", "draft_batch", "draft_control",
            "draft_executor", "draft_reading", "entering", "executor", "forecast", "in_order", "lane", "loading",
            "look_ahead", "outputs", "pipeline", "pipeline_accounts", "plan", "preemption", "prefix_cache",
            "prefix_node", "process", "rank", "stage_clock", "states", "step_sums", "steps", "verify_steps", "waiting",
        )
    ),
    *(f"servetwin.fabric.{name}" for name in ("bundles", "fairness", "flows", "links", "transfer")),
    *(
        f"servetwin.cluster.{name}"
        for name in (
            "connectors", "disaggregation", "fleet", "gateway", "group", "hand_over", "predictions", "prefill_book",
            "prefix_index", "rules", "split_view",
        )
    ),
    "servetwin.workload.source",
    "servetwin.results.recorder",
)  # fmt: skip

#: Types of other packages are left out of account, whether they are installed here or not: the result is the same.
_MYPY = ("--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent")

#: A fused multiply-add rounds once where Python rounds twice.
_C_FLAGS = () if sys.platform == "win32" else ("-ffp-contract=off",)


def compile_modules(modules: Sequence[str], sources: Path, out: Path) -> list[Path]:
    """Compile modules into one folder, with a manifest of the sources that they were made from.

    Args:
        modules: their full names.
        sources: the folder that the package lies in.
        out: the folder to fill; what an earlier call left there is removed.

    Returns:
        The files written.

    Raises:
        SystemExit: mypyc refuses a module.
        Exception: setuptools' errors, where there is no compiler.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution

    paths = [Path(*module.split(".")).with_suffix(".py") for module in modules]
    here = Path.cwd()
    # mypy finds a module's name from its path below the current folder.
    os.chdir(sources)
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            extensions = mypycify(
                [*_MYPY, f"--cache-dir={work / 'mypy'}", *map(str, paths)],
                opt_level="3",
                debug_level="0",
                target_dir=str(work / "c"),
                group_name="servetwin",
            )
            for extension in extensions:
                extension.extra_compile_args += _C_FLAGS
            build = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
            build.build_lib, build.build_temp = str(work / "lib"), str(work / "objects")
            build.ensure_finalized()
            build.run()
            built = sorted(Path(build.build_lib).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
            # Only now: until here a run takes the old ones.
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            written = [Path(shutil.copy2(path, out / _flat(path, Path(build.build_lib)))) for path in built]
    finally:
        os.chdir(here)
    manifest = out / f"manifest{sysconfig.get_config_var('EXT_SUFFIX')}.json"
    hashes = {
        module: hashlib.sha256((sources / path).read_bytes()).hexdigest()
        for module, path in zip(modules, paths, strict=True)
    }
    manifest.write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")
    return [*written, manifest]


def _flat(path: Path, root: Path) -> str:
    """The name of an extension as that of its module: ``servetwin.engine.rank.cpython-….so``."""
    return ".".join(path.relative_to(root).parts)


def main() -> None:
    """Compile the modules of this checkout in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SOURCES / "servetwin" / "_compiled", help="folder to fill")
    written = compile_modules(MODULES, SOURCES, parser.parse_args().out.resolve())
    print(f"{len(MODULES)} modules compiled into {written[-1].parent}")


if __name__ == "__main__":
    main()
