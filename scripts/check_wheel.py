"""What a wheel, or the environment that it was installed into, may contain.

``python scripts/check_wheel.py dist/servetwin-….whl`` reads the wheel;
``python scripts/check_wheel.py --installed CHECKOUT``, run by the environment's own Python, looks at what was
installed and that it is not the checkout.
"""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

DATA = (
    "servetwin/_data/hardware_profiles/gpus/h100-sxm.yaml",
    "servetwin/_data/hardware_profiles/models/llama-3.1-8b.yaml",
    "servetwin/_data/hardware_profiles/calibrations/default.yaml",
    "servetwin/_data/scenarios/quickstart.yaml",
    "servetwin/_data/workloads/traces/azure_example.csv",
    "servetwin/_data/workloads/acceptance/sharegpt.yaml",
    "servetwin/py.typed",
)
"""Files that the program does not work without."""


def check_names(names: list[str]) -> None:
    """Refuse anything beside the package and its metadata, and a package without its data."""
    top = {PurePosixPath(name).parts[0] for name in names}
    others = sorted(part for part in top if part != "servetwin" and not part.endswith(".dist-info"))
    if others:
        raise SystemExit(f"site-packages would gain more than servetwin: {', '.join(others)}")
    missing = [name for name in DATA if name not in names]
    if missing:
        raise SystemExit(f"the wheel lacks {', '.join(missing)}")


def main(arguments: list[str]) -> None:
    """Check a wheel, or the installed package."""
    if arguments[0] == "--installed":
        files = metadata.files("servetwin") or []
        # Scripts lie outside site-packages, and so does nothing else.
        names = [file.as_posix() for file in files if file.parts[0] != ".."]
        outside = sorted(file.name for file in files if file.parts[0] == "..")
        check_names(names)
        if outside not in (["servetwin"], ["servetwin.exe"]):
            raise SystemExit(f"beside the program servetwin, these were installed: {', '.join(outside)}")
        import servetwin

        home = Path(servetwin.__file__).resolve()
        if Path(arguments[1]).resolve() in home.parents:
            raise SystemExit(f"this is the checkout, not the installed package: {home}")
        print(f"servetwin {servetwin.__version__} from {home.parent}: {len(names)} files, no other package")
        return
    for path in map(Path, arguments):
        names = zipfile.ZipFile(path).namelist()
        check_names(names)
        print(f"{path.name}: {path.stat().st_size:,} bytes, {len(names)} files, nothing beside the package")


if __name__ == "__main__":
    main(sys.argv[1:])
