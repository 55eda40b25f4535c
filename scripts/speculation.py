"""When speculative decoding pays: the tables and the pictures of the page.

``python scripts/speculation.py [--out DIR]``

Runs of ``bench-8b`` with a constant batch and of ``bench-8b-spec`` under loads that rise and fall, as the page names
them. Without ``--out`` the tables are printed; with it they and the pictures are written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import speculation_batch
import speculation_depth
import speculation_load

TABLES: dict[str, Callable[[], str]] = {
    "speed-ups": speculation_batch.speedups_table,
    "steps": speculation_batch.steps_table,
    "bill": speculation_batch.bill_table,
    "machines": speculation_batch.machines_table,
    "room": speculation_batch.room_table,
    "depths": speculation_depth.depths_table,
    "load, seed 0": partial(speculation_load.candidates_table, 0),
    "load, seeds 1 to 3": partial(speculation_load.candidates_table, 1),
    "load, bursts": partial(speculation_load.candidates_table, 2),
}
"""Name of a table → what makes it."""

PICTURES: dict[str, Callable[[Path], None]] = {
    speculation_batch.PICTURES[0]: speculation_batch.draw_batch,
    speculation_batch.PICTURES[1]: speculation_batch.draw_bill,
    speculation_depth.PICTURE: speculation_depth.draw,
    speculation_load.PICTURE: speculation_load.draw,
}
"""Name of a picture → what draws it."""


def main() -> int:
    """Print the tables, or write them and the pictures; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the tables and the pictures here")
    out = parser.parse_args().out
    if out is None:
        print("\n\n".join(f"{name}\n\n{table()}" for name, table in TABLES.items()))
        return 0
    out.mkdir(parents=True, exist_ok=True)
    for name, table in TABLES.items():
        (out / f"{name.replace(', ', '-').replace(' ', '-')}.md").write_text(f"{table()}\n", encoding="utf-8")
    for name, draw in PICTURES.items():
        draw(out / name)
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
