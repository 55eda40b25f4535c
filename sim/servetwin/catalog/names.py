"""Names as people write them, and what may be missing from a name without changing what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from difflib import get_close_matches

from servetwin.errors import nearest_name

#: Endings that never change the configuration. Each is a whole word of a name. Dates, ``-Thinking`` and versions may:
#: a profile lists those that do not as aliases.
_ENDINGS = re.compile(r"-(instruct|chat|hf|base|it)(?=-|$)")

#: How the precision of a checkpoint is written in its name.
_PRECISIONS = {
    "bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("fp8",), "int8": ("int8",), "int4": ("int4",), "mxfp4": ("mxfp4",),
    "nvfp4": ("nvfp4", "fp4"),
}  # fmt: skip

#: From this ratio of ``difflib`` on, two names differ by a letter or two.
_SLIP = 0.9

#: ``organisation/name``: one stroke, and nothing that is no name around it.
_ORGANISATION = re.compile(r"^([\w.-]+)/([^/]+)$")


def fold_plain(name: str) -> str:
    """A name without case, with one dash between words, and without NVIDIA's own name in front.

    >>> fold_plain("NVIDIA GeForce RTX_5090")
    'geforce-rtx-5090'
    """
    return re.sub(r"[\s_-]+", "-", name.lower()).strip("-").removeprefix("nvidia-")


def fold(name: str) -> str:
    """A model's name without organisation, case and the endings that never change its configuration.

    Only whole words are left out: ``Qwen3-8B-Base`` is ``qwen3-8b``, and ``DeepSeek-R1-Distill-Llama-8B`` is no
    other model. Dates, ``-Thinking`` and versions stay.

    >>> fold("mistralai/Mixtral-8x7B-Instruct-v0.1")
    'mixtral-8x7b-v0.1'
    >>> fold("meta-llama/Meta-Llama-3.1-8B-Instruct")
    'llama-3.1-8b'
    >>> fold("Qwen/Qwen2.5-72B-Instruct (bf16)")
    'qwen2.5-72b-bf16'
    """
    found = _ORGANISATION.match(name.strip())
    return _folded(found[2] if found else name)


def _folded(name: str) -> str:
    folded = fold_plain(re.sub(r"[()]+", "-", name)).removeprefix("meta-").removeprefix("nvidia-")
    return _ENDINGS.sub("", folded)


def is_two_names(name: str, known: Container[str]) -> bool:
    """Whether what stands where the organisation would is a name itself: ``RTX5090/H100``, ``Kimi-K2/GLM-5``.

    Such a text means neither of the two.

    >>> is_two_names("glm-5/kimi-k2", {"glm-5", "kimi-k2"})
    True
    """
    found = _ORGANISATION.match(name.strip())
    return found is not None and _folded(found[1]) in known


def nearest(name: str, known: Iterable[str], fold_name: Callable[[str], str] = fold) -> str | None:
    """The known folded name that is nearest: one that stands in ``name`` as whole words or begins it, else one alike.

    >>> nearest("8x H100", ["h100", "h200"], fold_plain)
    'h100'
    >>> nearest("Qwen3-8B-Thinking", ["qwen3-8b", "qwen3-next-80b-a3b"])
    'qwen3-8b'
    """
    candidates = list(known)
    words = [word for word in re.split(r"[\s/;,()]+", name) if word]
    for length in (3, 2, 1):
        for start in range(len(words) - length + 1):
            folded = fold_name("-".join(words[start : start + length]))
            if folded in candidates:
                return folded
    whole = fold_name(name)
    # A slip of the pen is nearer than a beginning, and a beginning nearer than what looks a little alike.
    slip = get_close_matches(whole, candidates, n=1, cutoff=_SLIP)
    beginning = whole
    while "-" in beginning and not slip:
        beginning = beginning.rpartition("-")[0]
        if beginning in candidates:
            return beginning
    return slip[0] if slip else nearest_name(whole, candidates)


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
