"""From what a scenario writes to what it stands for: presets are looked up, and what has no effect is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from servetwin.acceptance.spec import Acceptance, Preset, Rate, Resolved, Survival
from servetwin.errors import CatalogError, FieldError, nearest_name

Methods = Mapping[str, Mapping[str, Any]]
"""A preset: what acceptance each method has."""


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
        CatalogError: there is no preset of that name.
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
        first = error.errors(include_url=False)[0]
        place = ".".join(("methods", method, *map(str, first["loc"])))
        raise CatalogError(
            f"the preset {spec.preset} is malformed: {first['msg'].removeprefix('Value error, ')}", path=place
        ) from None
