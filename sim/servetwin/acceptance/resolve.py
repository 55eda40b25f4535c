"""From what a scenario writes to what it stands for: presets are looked up, and what has no effect is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from servetwin.acceptance.levels import NoLevelsError
from servetwin.acceptance.spec import Acceptance, Preset, Rate, Resolved, Survival
from servetwin.errors import CatalogError, FieldError, nearest_name


class Methods(Protocol):
    """A preset: what acceptance each method has, and the file that says so."""

    file: str

    def __getitem__(self, method: str, /) -> Mapping[str, Any]: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, method: object, /) -> bool: ...


def resolve_acceptance(
    spec: Acceptance, method: str, presets: Callable[[str], Methods], path: str = "speculation.acceptance", *,
    always_drafts: bool = False,
) -> Resolved:  # fmt: skip
    """What ``spec`` means for a method.

    Args:
        spec: what the scenario writes.
        method: the name of the method of speculation.
        presets: finds a preset by its name; ``Catalog.acceptance``.
        path: where ``spec`` stands, for messages.
        always_drafts: whether the method drafts everywhere, not only where it finds a match in the text.

    Raises:
        CatalogError: there is no preset of that name, or its file is wrong.
        FieldError: the preset has nothing for the method, or ``proposal`` is given for one that always drafts.
    """
    if spec.proposal is not None and always_drafts:
        raise FieldError(
            f"proposal has no effect: {method} always drafts",
            path=f"{path}.proposal",
            found=spec.proposal,
            allowed="no proposal; only methods that look for matches in the text have one",
        )
    if not isinstance(spec, Preset):
        return spec
    try:
        methods = presets(spec.preset)
    except CatalogError as error:
        # Of a preset that is there, its own file says where.
        if error.file is None:
            error.path = error.path or path
        raise
    if method not in methods:
        raise FieldError(
            f"the preset {spec.preset} has no acceptance of this method",
            path=path,
            found=method,
            allowed=sorted(methods),
            nearest=nearest_name(method, methods),
            hint="give survival, or a rate, instead of a preset",
        )
    entry = dict(methods[method])
    if spec.proposal is not None:
        entry["proposal"] = spec.proposal
    kind: type[Rate] | type[Survival] = Rate if "rate" in entry else Survival
    try:
        return kind.model_validate(entry)
    except ValidationError as error:
        raise _contradiction(error, entry, f"methods.{method}", methods.file) from None


def _contradiction(error: ValidationError, entry: Mapping[str, Any], path: str, file: str) -> CatalogError:
    """What is said of figures that are well formed, each of them, and do not go together."""
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if not isinstance(cause, NoLevelsError):
        place = ".".join((path, *map(str, first["loc"])))
        return CatalogError(first["msg"].removeprefix("Value error, "), file=file, path=place, found=first["input"])
    found: Any = entry
    for part in (*first["loc"], cause.field):
        found = found[part]
    place = ".".join((path, *map(str, first["loc"]), cause.field))
    return CatalogError(cause.message, file=file, path=place, found=found, allowed=cause.allowed)
