"""``python -m servetwin`` is the same program as ``servetwin``."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Import the program and run it; Ctrl-C ends it without a traceback from the first moment on."""
    try:
        from servetwin.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
