"""Write the pinned numbers anew: ``python tests/golden/regenerate.py``, then look at the difference.

A changed number is a changed result. Commit it together with what changed it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.golden import measure


def main() -> None:
    """Run everything and say which files are different now."""
    changed = []
    for name in measure.scenarios():
        path = measure.FOLDER / f"{name}.json"
        if measure.write(path, measure.golden(name)):
            changed.append(path)
    for path in measure.FOLDER.glob("*.json"):
        if path.stem not in measure.scenarios():
            path.unlink()
            changed.append(path)
    if measure.write(measure.EVENTS, {name: measure.events(name) for name in measure.BENCH}):
        changed.append(measure.EVENTS)
    for path in changed:
        print(f"changed: {path}")
    print(f"{len(changed)} files changed" if changed else "nothing has changed")


if __name__ == "__main__":
    main()
