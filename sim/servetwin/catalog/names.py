"""Names as people write them, and what may be missing from a name without changing what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches

from servetwin.errors import nearest_name

#: Endings that never change the configuration. Each is a whole word of a name. Dates, ``-Thinking`` and versions may:
#: a profile lists those that do not as aliases.
_ENDINGS = re.compile(r"-(instruct|chat|hf|base|it)(?=-|$)")

#: How the precision of a checkpoint is written in its name.
_PRECISIONS = {
    "bf16": ("bf16",), "fp16": ("fp16",), "fp8": ("fp8",), "fp8_block": ("fp8",), "int8": ("int8",), "int4": ("int4",),
    "mxfp4": ("mxfp4",), "nvfp4": ("nvfp4", "fp4"),
}  # fmt: skip

#: From this ratio of ``difflib`` on, two names differ by a letter or two.
_SLIP = 0.9

#: From this ratio on, the letters that two names begin with are alike: ``qwen`` and ``quen``, ``hgx`` and ``dgx``.
_ONE_FAMILY = 0.6

_FAMILY = re.compile("[a-z]+")
_NUMBER = re.compile("[0-9]+")
_PRODUCT = re.compile("(?<![a-z0-9])[a-z]+[0-9]")

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
    """The known folded name that is nearest, or None where only a name of another family looks alike.

    A slip of the pen is nearest, where all numbers are right, for ``h200`` is no misspelt ``h100``; then a known name
    that stands in ``name`` as whole words, then one with the same words in it, then one that looks alike.

    >>> nearest("8x H100", ["h100", "h200"], fold_plain)
    'h100'
    >>> nearest("HGX-H200", ["b300-hgx", "h200", "h20"], fold_plain)
    'h200'
    >>> nearest("Qwen3-8B-Thinking", ["qwen3-8b", "qwen3-next-80b-a3b"])
    'qwen3-8b'
    >>> nearest("Llama-4", ["llama-2-70b", "llama-4-scout"])
    'llama-4-scout'
    >>> nearest("gemma-3-27b", ["llama-3-70b"]) is None
    True
    """
    candidates = list(known)
    words = [word for word in re.split(r"[\s/;,()]+", name) if word]
    for run in _runs(words, longest=3):
        if fold_name("-".join(run)) in candidates:
            return fold_name("-".join(run))
    whole = fold_name(name)
    for slip in get_close_matches(whole, candidates, n=5, cutoff=_SLIP):
        if _same_numbers(slip, whole):
            return slip
    for run in _runs(whole.split("-")):
        if "-".join(run) in candidates:
            return "-".join(run)
    found = _with_its_words(whole, candidates)
    if found is not None or not _NUMBER.search(whole):
        return found or nearest_name(whole, candidates)
    return nearest_name(whole, [one for one in candidates if _of_one_family(whole, one)])


def _runs(words: Sequence[str], longest: int | None = None) -> Iterator[Sequence[str]]:
    """Words that stand together, the longest runs first."""
    for length in range(min(len(words), longest or len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            yield words[start : start + length]


def _of_one_family(name: str, other: str) -> bool:
    """Whether the letters that two names with numbers begin with are alike; a name may begin with a number."""
    mine, yours = _FAMILY.match(name), _FAMILY.match(other)
    if mine is None or yours is None:
        return True
    return SequenceMatcher(None, mine[0], yours[0]).ratio() >= _ONE_FAMILY


def _with_its_words(whole: str, candidates: Sequence[str]) -> str | None:
    """The candidate that has the longest run of words of ``whole`` in it; of several the most similar one.

    A size such as ``70b`` is shared by models that have nothing else in common, a number such as ``h100`` is not.
    """
    words = whole.split("-")
    for length in range(len(words), 0, -1):
        runs = ["-".join(run) for run in _runs(words, longest=length) if len(run) == length]
        found = [
            one
            for one in candidates
            for run in runs
            if f"-{run}-" in f"-{one}-" and (_PRODUCT.search(run) or _of_one_family(whole, one))
        ]
        if found:
            return max(found, key=lambda one: (SequenceMatcher(None, whole, one).ratio(), _same_numbers(whole, one)))
    return None


def _same_numbers(name: str, other: str) -> bool:
    return _NUMBER.findall(name) == _NUMBER.findall(other)


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
