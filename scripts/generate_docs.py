"""Write the generated parts of README and documentation again, or check that they are current.

``python scripts/generate_docs.py [--check]``

A generated part stands between ``<!-- generated: NAME -->`` and ``<!-- end of generated part -->``. NAME is one of
``PARTS``, or ``output of COMMAND``, for which the command is run in an empty folder and what it prints is quoted.
Pictures (``IMAGES``) are drawn only when writing, for their bytes depend on the version of matplotlib.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import anomalies
import capacity_100b
import docs_accuracy
import docs_lists
import docs_profiles
import docs_schema
import speculation
import splitting

ROOT = Path(__file__).resolve().parents[1]

PARTS: dict[str, Callable[[], str]] = {
    "accuracy in short": docs_accuracy.in_short,
    "accuracy against other simulators": docs_accuracy.against_others,
    "scenario reference": docs_schema.scenario_reference,
    "policies": docs_lists.policies,
    "commands": docs_lists.commands,
    "techniques": docs_lists.techniques,
    "hardware": docs_lists.hardware,
    "calibration": docs_lists.calibration,
    "engine constants": docs_lists.engine_constants,
    "models": partial(docs_lists.catalogued, "models"),
    "scenarios": partial(docs_lists.catalogued, "scenarios"),
    "workloads": partial(docs_lists.catalogued, "workloads"),
    "acceptance": docs_lists.acceptance,
    **{f"fields of {kind}": partial(docs_profiles.profile_reference, kind) for kind in docs_profiles.SCHEMAS},
    "scheduling anomalies": anomalies.table,
    "simulated capacity-100b by degree": capacity_100b.degrees_table,
    "simulated capacity-100b by precision": capacity_100b.precisions_table,
    **{f"simulated speculation, {name}": table for name, table in speculation.TABLES.items()},
    **{f"simulated splitting, {name}": table for name, table in splitting.TABLES.items()},
}

IMAGES = {
    "quickstart-latency.png": ("run quickstart", "latency.png"),
    "quickstart-timeline.png": ("run quickstart", "timeline.png"),
    "quickstart-roofline.png": ("run quickstart", "roofline.png"),
    "network-links.png": ("run two-nodes.yaml", "links.png"),
    "sweep-lines.png": ("sweep load.yaml", "sweep-1-ttft_ms.p99.png"),
    "compare-waterfall.png": ("compare multi-turn --toggle prefix-caching", "waterfall.png"),
    "capacity-100b.png": ("capacity_100b.py", capacity_100b.PICTURE),
    **{name: ("speculation.py", name) for name in speculation.PICTURES},
    **{name: ("splitting.py", name) for name in splitting.PICTURES},
}
"""Picture in ``docs/images`` → the arguments of servetwin, or the script beside this one, that draw it, and the file
that they write."""

FILES = (("sweep.md", "load.yaml"), ("how-it-works/fabric.md", "two-nodes.yaml"))
"""Pages, and the files in them that pictures are drawn of."""

_PART = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end of generated part -->)", re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_OUTPUT = "output of "
_SIMULATED = (_OUTPUT, "simulated ")
"""How the names of parts begin that quote results."""


def pages() -> list[Path]:
    """README and every page of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def part(name: str) -> str:
    """What should stand in the part called ``name``."""
    if name.startswith(_OUTPUT):
        return f"\n```text\n{quoted(name.removeprefix(_OUTPUT))}\n```\n\n"
    if name not in PARTS:
        raise SystemExit(f"there is no generated part {name!r}; there are {', '.join(PARTS)} and 'output of COMMAND'")
    return f"\n{PARTS[name]()}\n\n"


def quoted(command: str) -> str:
    """What a command prints, in an empty folder."""
    program, *arguments = shlex.split(command)
    if program != "servetwin":
        raise SystemExit(f"only servetwin is run, found {command!r}")
    with tempfile.TemporaryDirectory() as folder:
        out = _servetwin(arguments, Path(folder))
    out = re.sub(r"^written to (runs/[\w.+-]+?)-\d{8}-\d{6}", r"written to \1-<time>", out, flags=re.MULTILINE)
    # Sources of figures lie in the checkout or in the installed package; readers have neither.
    out = out.replace(str(ROOT), "…")
    return "\n".join(line.rstrip() for line in out.strip().splitlines())


def renewed(text: str) -> str:
    """A page with all its generated parts as they should be."""
    return _PART.sub(lambda found: found.group(1) + part(found.group(2)) + found.group(4), text)


def stale(page: Path) -> Iterator[str]:
    """The generated parts of a page that are not current."""
    for found in _PART.finditer(page.read_text(encoding="utf-8")):
        name, written, wanted = found.group(2), found.group(3), part(found.group(2))
        same = _alike(written, wanted) if name.startswith(_SIMULATED) else written == wanted
        if not same:
            yield name


def _alike(one: str, other: str) -> bool:
    """Whether two texts differ by at most 1 % in their numbers, as results do between versions of numpy."""
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return False
    numbers = ([float(text.replace(",", "")) for text in _NUMBER.findall(side)] for side in (one, other))
    return all(abs(left - right) <= 0.01 * max(abs(left), abs(right)) for left, right in zip(*numbers, strict=True))


def draw_images() -> None:
    """Draw the pictures of the documentation again."""
    target = ROOT / "docs" / "images"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for page, name in FILES:
            (Path(folder) / name).write_text(_block(ROOT / "docs" / page, name), encoding="utf-8")
        drawn: dict[str, Path] = {}
        for name, (command, file) in IMAGES.items():
            if command not in drawn:
                drawn[command] = Path(folder) / str(len(drawn))
                _draw(command, drawn[command], Path(folder))
            shutil.copyfile(drawn[command] / file, target / name)
            print(f"drawn: docs/images/{name}")


def _block(page: Path, name: str) -> str:
    """The file that a page shows under a name."""
    _, _, rest = page.read_text(encoding="utf-8").partition(f"<!-- test: file {name} -->\n```yaml\n")
    return rest.partition("```\n")[0]


def _draw(command: str, out: Path, folder: Path) -> None:
    if command.endswith(".py"):
        script = Path(__file__).resolve().parent / command
        subprocess.run([sys.executable, str(script), "--out", str(out)], cwd=folder, check=True, capture_output=True)
    else:
        _servetwin([*shlex.split(command), "--out", str(out)], folder)


def _servetwin(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "MPLBACKEND": "Agg"}
    command = [sys.executable, "-m", "servetwin", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    # A refused scenario is quoted like any other answer.
    return done.stdout + done.stderr


def main() -> int:
    """Check or write; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if anything is out of date")
    if parser.parse_args().check:
        outdated = [f"{page.relative_to(ROOT)}: {name}" for page in pages() for name in stale(page)]
        missing = [f"docs/images/{name}" for name in IMAGES if not (ROOT / "docs/images" / name).is_file()]
        for item in outdated + missing:
            print(f"out of date: {item}")
        print("run scripts/docs update" if outdated or missing else "the generated parts are current")
        return 1 if outdated or missing else 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        # What differs only by noise stays, so that a page changes when its content does.
        if list(stale(page)):
            page.write_text(renewed(text), encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    draw_images()
    return 0


if __name__ == "__main__":
    sys.exit(main())
