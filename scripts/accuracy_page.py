"""Write the page about accuracy from finished runs of ``servetwin validate``.

``python scripts/accuracy_page.py DIR [DIR …] [--page FILE]``; ``scripts/accuracy`` says what the arguments are.

It is a script and no option of ``validate``, because the page is about this repository: its targets, its analyses, its
text. ``validate`` writes everything that the page takes into ``validate.json``, so that making the page costs nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from accuracy_notes import Notes, read_notes
from accuracy_parts import PARTS, other_run

from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import InputError, nearest_name

_HERE = Path(__file__).resolve().parent
TEMPLATE = _HERE / "accuracy_template.md"
NOTES = _HERE / "accuracy_notes.yaml"
PAGE = _HERE.parent / "docs" / "accuracy.md"

_PLACE = re.compile(r"\{\{ *(.+?) *\}\}")
_OTHER_RUNS = "other runs"
_PARTIAL = ("--kind", "--case")


def read_run(folder: Path) -> dict[str, Any]:
    """What a run of ``validate`` wrote.

    Args:
        folder: its ``--out``.

    Raises:
        InputError: there is no result, it is of an older version, or the run was interrupted.
    """
    file = folder / "validate.json"
    document = read_mapping(file, "result", InputError)
    for key in ("scores", "engines", "command", "date"):
        if not document.get(key):
            raise InputError(
                "this is no complete result of this version of validate", file=str(file), path=key,
                found=document.get(key), hint="run servetwin validate CASES.json --out DIR again",
            )  # fmt: skip
    if document.get("interrupted"):
        raise InputError("the run was interrupted", file=str(file), path="interrupted", found=True, allowed="false")
    return document


def page(documents: Sequence[Mapping[str, Any]], notes: Notes, template: str) -> str:
    """The page.

    Args:
        documents: what ``validate`` wrote: the run that the page is about, then others.
        notes: what people have judged.
        template: the fixed text, with ``{{ NAME }}`` where a part stands.

    Raises:
        InputError: the first run leaves cases out, runs are of different versions, a note names no case, or the
            template names no part.
    """
    first, *others = documents
    left_out = [word for word in first["command"] if word in _PARTIAL]
    if left_out:
        raise InputError(
            "the page is made from all cases", path="command", found=" ".join(first["command"]),
            allowed="a run without --kind and --case",
        )  # fmt: skip
    for document in others:
        if document["version"] != first["version"]:
            raise InputError(
                "the runs are of different versions", path="version", found=document["version"],
                allowed=first["version"],
            )  # fmt: skip
    notes.check([row["id"] for key in ("scores", "not_yet", "excluded") for row in first[key]])
    filled = {_OTHER_RUNS: "\n\n".join(other_run(document, notes) for document in others)}

    def part(found: re.Match[str]) -> str:
        name = found[1]
        if name not in (*PARTS, _OTHER_RUNS):
            raise InputError(
                "there is no such part", file=str(TEMPLATE), found=name, allowed=(*PARTS, _OTHER_RUNS),
                nearest=nearest_name(name, PARTS),
            )  # fmt: skip
        return filled[name] if name in filled else PARTS[name](first, notes)

    return re.sub(r"\n{3,}", "\n\n", _PLACE.sub(part, template)).strip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="DIR", type=Path, help="a folder that servetwin validate wrote")
    parser.add_argument("--page", metavar="FILE", type=Path, default=PAGE, help="where to write")
    given = parser.parse_args(arguments)
    try:
        documents = [read_run(folder) for folder in given.runs]
        text = page(documents, read_notes(NOTES), TEMPLATE.read_text(encoding="utf-8"))
        given.page.write_text(text, encoding="utf-8")
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written: {given.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
