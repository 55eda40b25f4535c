"""Where data lies, and under which names: the only module that knows.

Data of the package is in ``servetwin/_data`` once installed and beside ``sim/`` in a checkout; the user's own folders
come first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from servetwin.catalog.acceptance import AcceptancePreset, read_acceptance
from servetwin.catalog.calibration import read_calibration
from servetwin.catalog.describe import describe_gpu, describe_model
from servetwin.catalog.hardware import read_gpu
from servetwin.catalog.model import CONFIG, model_from_mapping, read_model, read_model_mapping
from servetwin.catalog.names import fold, fold_plain, is_two_names, nearest, with_precision
from servetwin.catalog.servers import read_link, read_node, read_storage
from servetwin.catalog.yaml_file import read_mapping
from servetwin.errors import CatalogError, nearest_name
from servetwin.paths import exists, expanded
from servetwin.specs import Calibration, Gpu, Link, ModelSpec, Node, StorageTier

Profile = TypeVar("Profile", Gpu, Link, StorageTier, Node, Calibration, ModelSpec)

_FOLDERS = {
    "hardware": "hardware_profiles/gpus",
    "links": "hardware_profiles/links",
    "nodes": "hardware_profiles/nodes",
    "storage": "hardware_profiles/storage",
    "models": "hardware_profiles/models",
    "calibrations": "hardware_profiles/calibrations",
    "scenarios": "scenarios",
    "workloads": "workloads",
    "acceptance": "workloads/acceptance",
}
KINDS = tuple(_FOLDERS)

_SUFFIXES = (".yaml", ".yml", ".json")


def _bundled_root() -> Path:
    package = Path(__file__).resolve().parents[1]
    installed = package / "_data"
    return installed if installed.is_dir() else package.parents[1]


class Catalog:
    """Finds models, GPUs, calibrations, scenarios and workloads by name or path.

    It lists each folder once, and reads each profile once: files that come or change later are for a new catalog.

    Args:
        extra: folders of the user, searched before the bundled data. Each is laid out as the bundled data is,
            or holds the folders ``gpus``, ``models``, … directly.
    """

    def __init__(self, extra: Sequence[Path] = ()) -> None:
        self._roots = [*extra, _bundled_root()]
        self._aliases: dict[str, dict[str, Path]] = {}
        self._listed: dict[str, dict[str, Path]] = {}
        self._known: dict[tuple[str, Path], Any] = {}
        for root in extra:
            if not root.is_dir():
                raise CatalogError("there is no such catalogue folder", file=str(root))
            known = [Path(folder) for folder in _FOLDERS.values()]
            if not any((root / place).is_dir() for folder in known for place in (folder, folder.name)):
                raise CatalogError(
                    "there is nothing of a catalogue in this folder",
                    file=str(root),
                    allowed=f"a folder that holds at least one of {', '.join(sorted(f.name for f in known))}",
                )

    def gpu(self, name: str) -> Gpu:
        """The GPU of that name or alias, or in the profile at that path."""
        return self._once("hardware", name, read_gpu)

    def gpu_reference(self, name: str) -> str:
        """What names that GPU from anywhere: a name of the catalog, or the absolute path of a profile outside it."""
        return self._reference("hardware", name)

    def link(self, name: str) -> Link:
        """The link of that name or alias, or in the profile at that path."""
        return self._once("links", name, read_link)

    def storage(self, name: str) -> StorageTier:
        """The storage of that name or alias, or in the profile at that path."""
        return self._once("storage", name, read_storage)

    def node(self, name: str) -> Node:
        """The server of that name or alias, or in the profile at that path, with its links and its storage."""
        return self._once("nodes", name, self._read_node)

    def node_reference(self, name: str) -> str:
        """What names that server from anywhere: a name of the catalog, or the absolute path of a profile outside it."""
        return self._reference("nodes", name)

    def link_reference(self, name: str) -> str:
        """The same of a link."""
        return self._reference("links", name)

    def nodes_with(self, gpu: str) -> list[str]:
        """The names of the servers that have that GPU, given by its ``gpu_reference``."""
        found = []
        for name, path in self._files("nodes").items():
            own = read_mapping(path, "node").get("gpu")
            try:
                if isinstance(own, str) and self.gpu_reference(own) == gpu:
                    found.append(name)
            except CatalogError:
                # Whoever reads the profile will say what is wrong with it.
                continue
        return sorted(found)

    def _once(self, kind: str, name: str, read: Callable[[Path], Profile]) -> Profile:
        """What the file of that name or path says; nobody may change it, for others have the same object."""
        path = self._locate(kind, name)
        if (kind, path) not in self._known:
            self._known[kind, path] = read(path)
        found: Profile = self._known[kind, path]
        return found

    def _reference(self, kind: str, name: str) -> str:
        path = self._locate(kind, name)
        names = [key for key, file in self._files(kind).items() if file == path]
        return names[0] if names else str(path.absolute())

    def _read_node(self, path: Path) -> Node:
        return read_node(path, self.gpu_reference, self.link, self.storage)

    def calibration(self, name: str) -> Calibration:
        """The calibration of that name, or in the file at that path."""
        return self._once("calibrations", name, self._read_calibration)

    def _read_calibration(self, path: Path) -> Calibration:
        return read_calibration(path, lambda name: self._locate("calibrations", name))

    def model(self, reference: str | Mapping[str, Any], place: str = "model") -> ModelSpec:
        """A model by name or alias, by the path of a profile or ``config.json``, or inline.

        Args:
            reference: the name, the path or the fields themselves.
            place: where in the scenario fields stand, for messages.
        """
        if not isinstance(reference, str):
            return model_from_mapping(reference, file="the scenario", name="inline", path=place)
        return self._once("models", reference, read_model)

    def model_reference(self, reference: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
        """What means that model everywhere: a name of the catalog as it is, and a file's content for its path."""
        if not isinstance(reference, str):
            return reference
        path = self._locate("models", reference)
        return reference if path in self._files("models").values() else read_model_mapping(path)

    def scenario(self, name: str) -> Path:
        """The file of a bundled scenario, or the path itself."""
        return self._locate("scenarios", name)

    def workload(self, name: str) -> Path:
        """The file of a bundled workload, or the path itself."""
        return self._locate("workloads", name)

    def acceptance(self, name: str) -> AcceptancePreset:
        """What acceptance each method of speculation has, in the preset of that name or in the file at that path."""
        return read_acceptance(self._locate("acceptance", name))

    def names(self, kind: str) -> list[str]:
        """The names of everything of a kind, sorted."""
        return sorted(self._files(kind))

    def digest(self) -> str:
        """A hash of every profile and calibration: a run of the same scenario with another one may differ."""
        found = hashlib.sha256()
        for kind in KINDS:
            if kind not in ("scenarios", "workloads"):
                for name, path in sorted(self._files(kind).items()):
                    found.update(f"{kind} {name}\n".encode())
                    found.update(path.read_bytes())
        return found.hexdigest()

    def describe(self, kind: str, name: str) -> dict[str, Any]:
        """What ``servetwin show`` says about one thing, as plain data; of a model, what its sheet does not."""
        path = self._locate(kind, name)
        if kind == "models":
            return describe_model(read_model(path), path)
        if kind == "hardware":
            gpu = read_gpu(path)
            constants = self.calibration("default").kernels_of(gpu.name, gpu.architecture)
            return describe_gpu(gpu, path, constants)
        readers: dict[str, Callable[[Path], Link | StorageTier | Node | Calibration]] = {
            "links": read_link, "storage": read_storage, "nodes": self._read_node,
            "calibrations": self._read_calibration,
        }  # fmt: skip
        if kind in readers:
            return {**asdict(readers[kind](path)), "file": str(path)}
        return {"name": path.stem, "file": str(path), "content": read_mapping(path, _singular(kind))}

    def _folders(self, kind: str) -> Iterator[Path]:
        if kind not in _FOLDERS:
            raise CatalogError(
                "there is no such kind of thing", found=kind, allowed=KINDS, nearest=nearest_name(kind, KINDS)
            )
        folder = Path(_FOLDERS[kind])
        for root in self._roots:
            for candidate in (root / folder, root / folder.name):
                if candidate.is_dir():
                    yield candidate
                    break

    def _files(self, kind: str) -> dict[str, Path]:
        """Files by name; the first folder wins, and what lies in the folder of another kind is left to that."""
        if kind not in self._listed:
            files: dict[str, Path] = {}
            for folder in self._folders(kind):
                for path in sorted(folder.rglob("*.yaml")):
                    name = path.relative_to(folder).with_suffix("").as_posix()
                    if f"{_FOLDERS[kind]}/{name.split('/')[0]}" not in _FOLDERS.values():
                        files.setdefault(name, path)
            self._listed[kind] = files
        return self._listed[kind]

    def _alias_index(self, kind: str) -> dict[str, Path]:
        """Files by folded name and alias. Read only when no file has the name asked for."""
        if kind not in self._aliases:
            index: dict[str, Path] = {}
            files, folded_name = self._files(kind), _fold(kind)
            for name, path in files.items():
                index.setdefault(folded_name(name), path)
            if kind not in ("scenarios", "workloads"):
                contents = {path: read_mapping(path, _singular(kind)) for path in files.values()}
                for path, content in contents.items():
                    aliases = content.get("aliases") or []
                    for alias in aliases if isinstance(aliases, list) else []:
                        index.setdefault(folded_name(str(alias)), path)
                if kind == "models":
                    for folded, path in list(index.items()):
                        for name in with_precision(folded, _precision(contents[path])):
                            index.setdefault(name, path)
            self._aliases[kind] = index
        return self._aliases[kind]

    def _locate(self, kind: str, name: str) -> Path:
        """The file of a name, an alias or a path, in that order.

        Raises:
            CatalogError: the name is unknown. A path that does not exist is for its reader to refuse.
        """
        files = self._files(kind)
        if name in files:
            return files[name]
        if name.endswith(_SUFFIXES) or name.startswith((".", "/", "~")):
            return expanded(name)
        index = self._alias_index(kind)
        # Hardware has no organisations: what stands before a stroke is another thing.
        one = "/" not in name or (kind == "models" and not is_two_names(name, index))
        folded_name = _fold(kind)
        if one and folded_name(name) in index:
            return index[folded_name(name)]
        if "/" in name and exists(name):
            return Path(name)
        known = sorted(files)
        near = nearest(name, index, folded_name)
        raise CatalogError(
            f"there is no {_singular(kind)} of that name", found=name, allowed=known,
            nearest=next((key for key, path in files.items() if near and path == index[near]), None),
            hint=_as_path(kind, name)
            or self._as_node(kind, name)
            or self._as_other(kind, name)
            or "a path to a file works too",
        )  # fmt: skip

    def _as_node(self, kind: str, name: str) -> str | None:
        """That a name which means no GPU means a server."""
        node = self._alias_index("nodes").get(fold_plain(name)) if kind == "hardware" else None
        return f"{name} is a server: hardware names its GPU, {self._read_node(node).gpu}" if node else None

    def _as_other(self, kind: str, name: str) -> str | None:
        """That a thing of another kind has the name."""
        try:
            others = (other for other in KINDS if other != kind and _fold(other)(name) in self._alias_index(other))
            other = next(others, None)
        except CatalogError:
            # A broken file of another kind is not what was asked about.
            return None
        return f"{name} is a {_singular(other)}: servetwin show {other} {name}" if other else None


def _as_path(kind: str, name: str) -> str | None:
    """That a file of the working folder has the name, which alone means a thing of the catalogue."""
    path = Path(name)
    try:
        if path.is_file():
            return f"there is a file of that name here: write ./{name}"
        if kind == "models" and (path / CONFIG).is_file():
            return f"there is a folder of that name here: write ./{name}"
        for suffix in _SUFFIXES:
            if path.with_name(path.name + suffix).is_file():
                return f"there is a file {name}{suffix} here: write {name}{suffix}"
    except (OSError, ValueError):
        # Too long for a file, for example.
        pass
    return None


def _precision(content: Mapping[str, Any]) -> str:
    """The precision of the weights that a model's profile states."""
    weights = content.get("weights")
    return str(weights.get("dtype", "bf16")) if isinstance(weights, Mapping) else "bf16"


def _fold(kind: str) -> Callable[[str], str]:
    """What may be missing from a name of that kind: the endings of models are theirs alone."""
    return fold if kind == "models" else fold_plain


def _singular(kind: str) -> str:
    return "GPU" if kind == "hardware" else kind.removesuffix("s")
