"""What splitting a model costs: the tables and the pictures of the page.

``python scripts/splitting.py [--out DIR]``

Runs of ``tp-70b``, ``pp-405b`` and ``bench-70b-pp4`` as the page names them, shortened, and what ``servetwin explain``
and ``servetwin compare`` say. Without ``--out`` the tables are printed; with it they and the pictures are written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import splitting_bubbles
import splitting_measured
import splitting_servers
import splitting_stragglers
import splitting_tensor
from findings import written_or_printed

TABLES: dict[str, Callable[[], str]] = {
    "tensor-steps": splitting_tensor.steps_table,
    "tensor-equal": splitting_tensor.equal_table,
    "tensor-capacity": splitting_tensor.capacity_table,
    "servers-steps": splitting_servers.steps_table,
    "servers-loads": splitting_servers.loads_table,
    "bubbles": splitting_bubbles.loads_table,
    "straggler-steps": splitting_stragglers.steps_table,
    "straggler-runs": splitting_stragglers.runs_table,
    "measured": splitting_measured.measured_table,
}
"""Name of a table → what makes it."""

PICTURES: dict[str, Callable[[Path], None]] = {
    splitting_tensor.PICTURES[0]: splitting_tensor.draw_steps,
    splitting_tensor.PICTURES[1]: splitting_tensor.draw_equal,
    splitting_servers.PICTURE: splitting_servers.draw,
    splitting_bubbles.PICTURE: splitting_bubbles.draw,
    splitting_stragglers.PICTURE: splitting_stragglers.draw,
}
"""Name of a picture → what draws it."""


if __name__ == "__main__":
    sys.exit(written_or_printed(__doc__, TABLES, PICTURES))
