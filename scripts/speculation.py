"""When speculative decoding pays: the tables and the pictures of the page.

``python scripts/speculation.py [--out DIR]``

Runs of ``bench-8b`` with a constant batch and of ``bench-8b-spec`` under loads that rise and fall, as the page names
them. Without ``--out`` the tables are printed; with it they and the pictures are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import speculation_batch
import speculation_depth
import speculation_load
from findings import written_or_printed

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


if __name__ == "__main__":
    sys.exit(written_or_printed(__doc__, TABLES, PICTURES))
