"""What scripts of pages with findings have in common: they print their tables, or write them and the pictures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path


def written_or_printed(
    description: str | None, tables: Mapping[str, Callable[[], str]], pictures: Mapping[str, Callable[[Path], None]]
) -> int:
    """The command line of such a script; returns the exit code.

    Args:
        description: what ``--help`` says.
        tables: name of a table → what makes it.
        pictures: name of a picture → what draws it.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the tables and the pictures here")
    out = parser.parse_args().out
    if out is None:
        print("\n\n".join(f"{name}\n\n{table()}" for name, table in tables.items()))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        (out / f"{name.replace(', ', '-').replace(' ', '-')}.md").write_text(f"{table()}\n", encoding="utf-8")
    for name, draw in pictures.items():
        draw(out / name)
    print(f"written to {out}")
    return 0
