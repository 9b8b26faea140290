"""Numbers, lists and names as a reader wants to see them."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from nmfmerge.plot.style import superscript


def number(value: float) -> str:
    """A number at four digits, without an exponent where that is readable."""
    if not np.isfinite(value):
        return "∞" if value > 0 else str(value)
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} · 10{superscript(int(exponent))}"


def apart(*values: float) -> list[str]:
    """Numbers at the fewest digits, from three on, at which those that differ look different."""
    for digits in range(3, 7):
        texts = [_rounded(value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _rounded(value: float, digits: int) -> str:
    return number(float(f"{value:.{digits}g}")) if digits <= 4 else f"{value:.{digits}g}"


def percent(value: float) -> str:
    """A share in percent."""
    return f"{number(value)} %"


def seconds(value: float) -> str:
    """A time."""
    if value < 1:
        return f"{1000 * value:.3g} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.0f} min"


def several(items: Sequence[object]) -> str:
    """Items with commas and "and"."""
    texts = [str(item) for item in items]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def count(n: int, noun: str) -> str:
    """A number with its noun, in the plural where it must be."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def ended(status: str) -> str:
    """How a run or a stage ended."""
    return {
        "converged": "converged",
        "max_iter": "stopped at the limit of iterations",
        "max_time": "stopped at the time limit",
        "callback": "stopped by the callback",
        "interrupted": "interrupted",
        "done": "done",
    }.get(str(status), str(status))


def printable(text: str) -> str:
    """A name for pages and figures: bytes that are no text and control characters become �."""
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)
