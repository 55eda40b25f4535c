"""Validation errors in words: where, what was found, what is allowed, and the nearest valid name."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from servetwin.errors import FieldError
from servetwin.scenario.other_names import meant_field, meant_value

Path = tuple[str | int, ...]

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "list_type": "a list",
    "tuple_type": "a list",
    "none_required": "nothing (null)",
    "is_instance_of": "a mapping of fields",
}
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
_MOST_MISTAKES = 3
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d*)?(e[-+]?\d+)?\s*", re.IGNORECASE)
_FIGURE = re.compile(r"\s*[-+]?[\d.]")
_UNITS = ", in digits: the name of the field has the unit, and shares are fractions"


@dataclass(slots=True)
class Mistake:
    """One fault of a scenario.

    Attributes:
        message: what is wrong.
        path: where.
        found: what stands there.
        allowed: what would be accepted.
        nearest: the closest valid name.
    """

    message: str
    path: Path
    found: object = None
    allowed: str | list[str] | None = None
    nearest: str | None = None


def explain(error: ValidationError, model: type[BaseModel], raw: Any) -> list[Mistake]:
    """The mistakes behind a validation error, in the order of the file, one for each place.

    Args:
        error: what pydantic says.
        model: what was validated.
        raw: the value that was validated.
    """
    mistakes: dict[Path, Mistake] = {}
    lines = _flatten(error.errors(include_url=False))
    for line in lines:
        if line["type"] == "too_short" and any(_is_inside(other["loc"], line["loc"]) for other in lines):
            # Entries that are wrong themselves were not counted.
            continue
        path = _real_path(line["loc"], raw, line["type"])
        mistake = _explain_line(line, path, model, raw)
        known = mistakes.get(path)
        if known is None:
            mistakes[path] = mistake
        elif known.allowed and mistake.allowed:
            # Several alternatives of one field were tried: all of them are allowed.
            known.message = "this is none of the values that the field takes"
            known.allowed = f"{_listed(known.allowed)}, or {_listed(mistake.allowed)}"
            known.nearest = known.nearest or mistake.nearest
    return list(mistakes.values())


def _listed(allowed: str | list[str]) -> str:
    return allowed if isinstance(allowed, str) else ", ".join(allowed)


def as_error(mistakes: Sequence[Mistake], file: str) -> FieldError:
    """One error for all mistakes: the first in full, the others in a line each."""
    first, *others = mistakes
    hint = None
    if others:
        listed = [f"{dotted(m.path)}: {m.message}" for m in others[: _MOST_MISTAKES - 1]]
        more = len(others) - len(listed)
        hint = "also wrong: " + "; ".join(listed) + (f"; and {more} more" if more else "")
    return FieldError(
        first.message,
        file=file,
        path=dotted(first.path) or None,
        found=first.found,
        allowed=first.allowed,
        nearest=first.nearest,
        hint=hint,
    )


def dotted(path: Path) -> str:
    """A path as the user writes it."""
    return ".".join(str(part) for part in path)


def _flatten(lines: Sequence[Any]) -> list[dict[str, Any]]:
    """The errors, with those inside a policy moved to their place."""
    flat: list[dict[str, Any]] = []
    for line in lines:
        if line["type"] != "policy_fields":
            flat.append(dict(line))
            continue
        for inner in line["ctx"]["errors"]:
            flat.append({**inner, "loc": (*line["loc"], *inner["loc"]), "policy_fields": line["ctx"]["fields"]})
    return flat


def _is_inside(inner: Sequence[str | int], outer: Sequence[str | int]) -> bool:
    return len(inner) > len(outer) and tuple(inner[: len(outer)]) == tuple(outer)


def _real_path(loc: Sequence[str | int], raw: Any, kind: str) -> Path:
    """The path in the file: pydantic also names the member of a union that it tried."""
    path: list[str | int] = []
    node = raw
    for index, part in enumerate(loc):
        last = index == len(loc) - 1
        if _has(node, part):
            node = _inner(node, part)
        elif not (last and kind == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _explain_line(line: dict[str, Any], path: Path, model: type[BaseModel], raw: Any) -> Mistake:
    kind, context, found = line["type"], line.get("ctx", {}), line.get("input")
    if kind == "missing":
        return Mistake(f"the field '{path[-1]}' is missing", path)
    if kind == "extra_forbidden":
        name, part = str(line["loc"][-1]), path[:-1]
        if not path or name != str(path[-1]):
            # A text that stands for a mapping: its fields have no path of their own.
            part = path
        # Another alternative of the same place may have it.
        fields = [field for field in line.get("policy_fields") or field_names(model, part, raw) if field != name]
        return Mistake("unknown field", path, name, fields, meant_field(name, fields, dotted(part)))
    if kind.startswith("policy_"):
        return _explain_policy(kind, line, path)
    if kind in ("literal_error", "union_tag_invalid"):
        allowed = re.findall(r"'([^']*)'", str(context.get("expected") or context.get("expected_tags")))
        if kind == "union_tag_invalid":
            path, found = (*path, context["discriminator"].strip("'")), context["tag"]
        return Mistake("unknown value", path, found, allowed, meant_value(str(found), allowed))
    if kind == "union_tag_not_found":
        key = context["discriminator"].strip("'")
        names = tag_names(model, path, raw, key)
        return Mistake(f"the field '{key}' is missing", (*path, key), None, names or None)
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return Mistake("the number is out of range", path, found, f"a number {words} {context[bound]:g}")
    if kind in _WANTED:
        message = "wrong type" if kind != "finite_number" else "not finite"
        return Mistake(message, path, found, _wanted(kind, found, field_names(model, path, raw)))
    if kind == "invalid_key":
        return Mistake("field names must be text", path, found)
    if kind == "too_short":
        return Mistake("too few entries", path, found, f"at least {context['min_length']}")
    if kind == "too_long":
        return Mistake("too many entries", path, found, f"at most {context['max_length']}")
    message = str(line["msg"]).removeprefix("Value error, ")
    return Mistake(message[:1].lower() + message[1:], path, found if _is_small(found) else None)


def _wanted(kind: str, found: object, fields: Sequence[str]) -> str:
    """What would be accepted instead of a value of the wrong type.

    Args:
        kind: the kind of pydantic's error.
        found: the value.
        fields: those of the mapping that belongs here, if one does.
    """
    wanted = _WANTED[kind]
    if wanted == _WANTED["model_type"] and fields:
        number = "a number, or " if "distribution" in fields else ""
        return f"{number}{wanted}: {', '.join(fields)}"
    if "number" in wanted and isinstance(found, str):
        return wanted + (", without quotes" if _NUMBER.fullmatch(found) else _UNITS if _FIGURE.match(found) else "")
    return wanted


def _explain_policy(kind: str, line: dict[str, Any], path: Path) -> Mistake:
    context = line.get("ctx", {})
    if kind == "policy_unknown":
        found, names = context["found"], context["names"]
        return Mistake(
            f"unknown {context['kind']} policy",
            (*path, "policy") if isinstance(line.get("input"), Mapping) else path,
            found,
            names,
            meant_value(found, names),
        )
    if kind == "policy_missing":
        return Mistake("the field 'policy' is missing", (*path, "policy"), None, context["names"])
    return Mistake(str(line["msg"]), path, line.get("input"))


def _is_small(value: object) -> bool:
    return isinstance(value, (str, int, float, bool)) and len(str(value)) < 200


def field_names(model: type[BaseModel], path: Path, raw: Any) -> list[str]:
    """The fields that a scenario may write at ``path``."""
    names: list[str] = []
    for candidate in _models_at(model, path, raw):
        written = (field.alias or name for name, field in candidate.model_fields.items())
        names.extend(name for name in written if name not in names)
    return names


def tag_names(model: type[BaseModel], path: Path, raw: Any, key: str) -> list[str]:
    """The values that select a member of the union at ``path``."""
    names: list[str] = []
    for candidate in _models_at(model, path, raw):
        field = candidate.model_fields.get(key)
        names.extend(str(value) for value in (get_args(field.annotation) if field else ()))
    return names


def _models_at(annotation: Any, path: Path, raw: Any) -> list[type[BaseModel]]:
    """The model classes that the value at ``path`` may be."""
    candidates = _members(annotation, raw)
    if not path:
        return [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
    head, *rest = path
    inner_raw = _inner(raw, head)
    found: list[type[BaseModel]] = []
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            field = candidate.model_fields.get(str(head))
            inner: Any = field.annotation if field is not None else None
        else:
            arguments = [a for a in get_args(candidate) if a is not Ellipsis]
            inner = arguments[-1] if arguments else None
        if inner is not None:
            found.extend(_models_at(inner, tuple(rest), inner_raw))
    return found


def _has(raw: Any, part: str | int) -> bool:
    if isinstance(raw, Mapping):
        return part in raw
    return isinstance(raw, (list, tuple)) and isinstance(part, int) and part < len(raw)


def _inner(raw: Any, part: str | int) -> Any:
    if isinstance(raw, Mapping):
        return raw.get(part)
    if isinstance(raw, (list, tuple)) and isinstance(part, int) and part < len(raw):
        return raw[part]
    return None


def _members(annotation: Any, raw: Any) -> list[Any]:
    """The members of a union, narrowed to those that the value's literals select."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [inner for member in get_args(annotation) for inner in _members(member, raw)]
    else:
        members = [annotation]
    selected = [member for member in members if _selects(member, raw)]
    return selected or members


def _selects(member: Any, raw: Any) -> bool:
    if not (isinstance(member, type) and issubclass(member, BaseModel) and isinstance(raw, Mapping)):
        return False
    literals = {
        n: get_args(f.annotation) for n, f in member.model_fields.items() if get_origin(f.annotation) is Literal
    }
    return any(raw.get(name) in values for name, values in literals.items())
