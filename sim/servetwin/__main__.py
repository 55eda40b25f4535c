"""``python -m servetwin`` is the same program as ``servetwin``."""

from __future__ import annotations

from servetwin.cli.main import main

if __name__ == "__main__":
    main()
