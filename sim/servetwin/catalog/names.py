"""Names as people write them, and what may be missing from a name without changing what it means."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

from servetwin.errors import nearest_name

#: Publishers' endings, dates of a release and version suffixes. Each is a whole word of a name.
_ENDINGS = re.compile(r"-(instruct|chat|thinking|hf|base|it|v0[.-]?\d+|\d{4}|\d{2}-\d{4}|\d{6,8})(?=-|$)")

#: How the precision of a checkpoint is written in its name.
_PRECISIONS = {
    "bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("fp8",), "int8": ("int8",), "int4": ("int4",), "mxfp4": ("mxfp4",),
    "nvfp4": ("nvfp4", "fp4"),
}  # fmt: skip


#: ``organisation/name``: one stroke, and nothing that is no name around it.
_ORGANISATION = re.compile(r"^([\w.-]+)/([^/]+)$")


def fold(name: str) -> str:
    """A name without organisation, case, endings such as ``-Instruct``, dates and version suffixes.

    Only whole words are left out: ``Qwen3-8B-Base`` is ``qwen3-8b``, and ``DeepSeek-R1-Distill-Llama-8B`` is no
    other model.

    >>> fold("mistralai/Mixtral-8x7B-Instruct-v0.1")
    'mixtral-8x7b'
    >>> fold("meta-llama/Meta-Llama-3.1-8B-Instruct")
    'llama-3.1-8b'
    >>> fold("Qwen/Qwen2.5-72B-Instruct (bf16)")
    'qwen2.5-72b-bf16'
    """
    found = _ORGANISATION.match(name.strip())
    return _folded(found[2] if found else name)


def _folded(name: str) -> str:
    folded = re.sub(r"[\s_()-]+", "-", name.lower()).strip("-")
    folded = folded.removeprefix("meta-").removeprefix("nvidia-")
    return _ENDINGS.sub("", folded)


def is_two_names(name: str, known: Container[str]) -> bool:
    """Whether what stands where the organisation would is a name itself: ``RTX5090/H100``, ``Kimi-K2/GLM-5``.

    Such a text means neither of the two.

    >>> is_two_names("glm-5/kimi-k2", {"glm-5", "kimi-k2"})
    True
    """
    found = _ORGANISATION.match(name.strip())
    return found is not None and _folded(found[1]) in known


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known folded name that is nearest: one that stands in ``name`` as whole words, else one that looks alike.

    >>> nearest("8x H100", ["h100", "h200"])
    'h100'
    """
    candidates = list(known)
    words = [word for word in re.split(r"[\s/;,()]+", name) if word]
    for length in (3, 2, 1):
        for start in range(len(words) - length + 1):
            folded = _folded("-".join(words[start : start + length]))
            if folded in candidates:
                return folded
    return nearest_name(fold(name), candidates)


def with_precision(folded: str, dtype: str) -> Iterator[str]:
    """A folded name as it is written where somebody adds the precision that the checkpoint has anyway.

    >>> list(with_precision("deepseek-r1", "fp8"))
    ['deepseek-r1-fp8']
    >>> list(with_precision("llama-3.1-70b-fp8", "fp8"))
    []
    """
    endings = _PRECISIONS.get(dtype, ())
    if not folded.endswith(tuple(f"-{ending}" for ending in endings)):
        yield from (f"{folded}-{ending}" for ending in endings)
