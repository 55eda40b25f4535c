"""Tables and figures in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> str:
    """A table.

    Args:
        head: the columns.
        rows: their cells.
        texts: how many columns, from the left, hold text; the others hold figures and stand to the right.
    """
    rule = "".join("---|" if place < texts else "---:|" for place in range(len(head)))
    lines = ["| " + " | ".join(head) + " |", "|" + rule]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def one(value: float) -> str:
    """A figure with one decimal.

    >>> one(1234.56)
    '1,234.6'
    """
    return f"{value:,.1f}"


def signed(value: float) -> str:
    """A figure with its sign and one decimal; none that is shown as nothing has a sign.

    >>> signed(2), signed(-0.01)
    ('+2.0', '0.0')
    """
    text = f"{value:+,.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text
