"""What a comparison says, in plain words."""

from __future__ import annotations

from math import inf, isinf

from servetwin.report.units import bucket_words, number
from servetwin.studies.compare.contrasts import COSTS, Account
from servetwin.studies.compare.measure import IN_USE
from servetwin.studies.statistics import Interval

_LEAST_SHARE = 0.0005
"""Below this share of the GPU time in use, a figure is not worth a word."""

_DIGITS = 3
"""Behind the point: a microsecond, a millisecond of a GPU."""

_LATENCIES = (("ttft_ms.mean", "mean TTFT"), ("tpot_ms.mean", "mean TPOT"))


def sentence(subject: str, account: Account, reference_gpu_s: float) -> str:
    """What something gains and what it costs.

    Args:
        subject: what it is.
        account: what it changes.
        reference_gpu_s: GPU time in use without it [s].
    """
    said = [*_gpus(account), _gpu_time(account, reference_gpu_s), *_latencies(account)]
    return f"{subject} {_joined(said)}; {_cost(account, reference_gpu_s)}."


def _gpus(account: Account) -> list[str]:
    """What is said of another number of GPUs, whose price no GPU-second in use shows."""
    more = account.metrics.get("gpus") or 0
    return [f"has {number(abs(more))} GPU{'s' * (abs(more) != 1)} {'more' if more > 0 else 'fewer'}"] if more else []


def _gpu_time(account: Account, reference_gpu_s: float) -> str:
    net = account.net(reference_gpu_s)
    saved, share = net["gpu_seconds"] or 0.0, net["share"]
    interval = account.intervals.get(IN_USE)
    if share is None or abs(share) < _LEAST_SHARE:
        return "leaves the GPU-seconds in use as they are"
    if interval is not None and not interval.excludes_zero:
        return f"changes the GPU-seconds in use by no more than chance{_range(interval, ' GPU-s')}"
    relative = f"{'−' if saved > 0 else '+'}{abs(share):.1%}".replace("%", " %")
    of_chance = "" if interval is None else f", {_interval(interval, -1 if saved > 0 else 1)} GPU-s"
    amount = f"{number(abs(saved))} GPU-s"
    return f"saves {amount} ({relative}{of_chance})" if saved > 0 else f"takes {amount} more ({relative}{of_chance})"


def _latencies(account: Account) -> list[str]:
    said: dict[str, list[str]] = {}
    for key, name in _LATENCIES:
        interval = account.intervals.get(key)
        change = interval.estimate if interval is not None else account.metrics.get(key)
        if change is None:
            continue
        if change == 0 or (interval is not None and not _unknown(interval) and not interval.excludes_zero):
            said.setdefault("leaves", []).append(f"{name}{_range(interval, ' ms') if change else ''}")
            continue
        verb = "lowers" if change < 0 else "raises"
        sure = "" if interval is None or _unknown(interval) else f" ({_interval(interval, -1 if change < 0 else 1)})"
        said.setdefault(verb, []).append(f"{name} by {number(round(abs(change), _DIGITS))} ms{sure}")
    if "leaves" in said:
        said["leaves"][-1] += " where it was" if len(said["leaves"]) == 1 else " where they were"
    return [f"{verb} {_joined(objects)}" for verb, objects in said.items()]


def _cost(account: Account, reference_gpu_s: float) -> str:
    """What handing work on costs more, and then what it costs less."""
    kinds = [(bucket_words(bucket), account.ledger[bucket]) for bucket in COSTS]
    kinds = [(kind, spent) for kind, spent in kinds if spent and abs(spent) >= _LEAST_SHARE * reference_gpu_s]
    if not kinds:
        return "handing work on costs nothing measurable"
    more = [f"{number(spent)} GPU-s of {kind}" for kind, spent in kinds if spent > 0]
    less = [f"{number(-spent)} GPU-s less of {kind}" for kind, spent in kinds if spent < 0]
    return f"handing work on costs {_joined(more + less)}, included in that"


def _interval(interval: Interval, sign: int) -> str:
    ends = sorted((sign * interval.low, sign * interval.high))
    return f"95 % CI {_signed(ends[0])}…{_signed(ends[1])}"


def _range(interval: Interval | None, unit: str) -> str:
    if interval is None or _unknown(interval):
        return ""
    return f" (95 % CI {_signed(interval.low)}…{_signed(interval.high)}{unit})"


def _signed(value: float) -> str:
    return number(round(value, _DIGITS)).replace("-", "−")


def _unknown(interval: Interval) -> bool:
    return isinf(interval.low) or interval.half_width == inf


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
