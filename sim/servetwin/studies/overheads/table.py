"""What a fit found, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator

from servetwin.studies.overheads.constants import CONSTANTS
from servetwin.studies.overheads.study import FamilyFit

MOST_COST = 1.5
"""What leaving out a group of cases may cost."""


def plain(found: FamilyFit) -> str:
    """The constants, their errors and what leaving out costs, for a terminal."""
    lines = [f"{found.family}: {found.cases} cases, starting from calibration {found.start.name}", ""]
    lines.append(f"{'constant':30}{'before':>14}{'after':>14}")
    for constant in CONSTANTS:
        before, after = constant.text(constant.of(found.start)), constant.text(found.values[constant.name])
        lines.append(f"{constant.name:30}{before:>14}{after:>14}")
    header = f"{'mean':>7}{'median':>8}{'signed':>8}"
    lines += ["", f"{'':34}{'before':^23}{'after':^23}", f"{'error in %':28}{'n':>6}{header}{header}"]
    for (group, metric), after_score in found.after.items():
        line = f"{group + ' ' + metric:28}{after_score.n:>6}"
        for score in (found.before[group, metric], after_score):
            line += f"{score.mean:>7.1f}{score.median:>8.1f}{score.signed:>+8.1f}"
        lines.append(line)
    if found.left_out:
        lines += ["", f"{'TPOT of a group that is left out, %':40}{'n':>6}{'without':>9}{'with':>8}{'ratio':>8}"]
        for item in found.left_out:
            label = f"{item.what} {item.name}"
            lines.append(f"{label:40}{item.n:>6}{item.without:>9.1f}{item.fitted:>8.1f}{item.ratio:>8.2f}")
        lines.append(verdict(found))
    return "\n".join(lines)


def markdown(found: FamilyFit) -> str:
    """What leaving out costs, as a table of a page."""
    lines = [
        "| engine | left out | cases | without it | with it | ratio |", "|---|---|--:|--:|--:|--:|", *_rows(found)
    ]  # fmt: skip
    return "\n".join(lines)


def _rows(found: FamilyFit) -> Iterator[str]:
    for item in found.left_out:
        yield (
            f"| {found.family} | {item.what} `{item.name}` | {item.n} | {item.without:.1f} | {item.fitted:.1f} "
            f"| {item.ratio:.2f} |"
        )


def verdict(found: FamilyFit) -> str:
    """Whether the constants carry over, in a sentence."""
    worst = max(found.left_out, key=lambda item: item.ratio)
    kept = "no group costs" if worst.ratio <= MOST_COST else "some group costs"
    return f"{kept} more than {MOST_COST:g} times its error; at worst {worst.ratio:.2f} ({worst.what} {worst.name})"
