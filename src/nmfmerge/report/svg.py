"""Figures as SVG inside the page, in the page's own colours and letters.

Input: a matplotlib figure drawn on white. Output: an ``<svg>`` whose text, lines and background are
CSS variables, so that it follows the light and the dark page alike.
"""

import re
from html import escape
from io import StringIO

from matplotlib import rc_context
from matplotlib.figure import Figure

from nmfmerge.plot.style import AXIS, BLUE, CRIMSON, GREY, INK, NOTE, ORANGE

_VARIABLES = {
    INK: "--ink", NOTE: "--soft", AXIS: "--axis", GREY: "--grey", "#ffffff": "--panel",
    BLUE: "--blue", CRIMSON: "--red", ORANGE: "--orange", "#000000": "--ink",
    "#c9d6e4": "--stage-1", "#f3d9dd": "--stage-2", "#cfe3d4": "--stage-3", "#dddddd": "--stage-0",
}  # fmt: skip
_COLOUR = re.compile(r"(?<=: )#[0-9a-f]{6}")
_ATTRIBUTE = re.compile(r'="[^"]*"')
_DECIMALS = re.compile(r"(\d\.\d\d)\d+")
_FONT = re.compile(r"font-family: [^;\"]*; ")
_REFERENCE = re.compile(r"(?:url\(#|href=\"#)([\w.-]+)")
_LINES = re.compile(r"\s*\n\s*")
_ID = re.compile(r' id="([^"]*)"')


def inline(figure: Figure, name: str, alt: str) -> str:
    """Draw a figure as SVG for the page; ``name`` begins all its ids, so that they are unique."""
    lines = StringIO()
    with rc_context({"svg.hashsalt": "nmfmerge", "svg.fonttype": "none"}):
        figure.savefig(lines, format="svg", metadata={"Date": None, "Creator": None})
    drawn = lines.getvalue()
    body = drawn[drawn.index("</defs>") + len("</defs>") : drawn.rindex("</svg>")]
    width, height = (72 * inches for inches in figure.get_size_inches())
    body = _ATTRIBUTE.sub(lambda found: _DECIMALS.sub(r"\1", found[0]), _FONT.sub("", body))
    body = body.replace("xlink:href", "href")
    body = _COLOUR.sub(lambda found: _in_page_colours(found[0]), _own_ids(body, name))
    body = _LINES.sub(" ", body)
    size = f'viewBox="0 0 {width:g} {height:g}"'
    return f'<svg role="img" aria-label="{escape(alt)}" {size}>{body}</svg>'


def _in_page_colours(colour: str) -> str:
    return f"var({_VARIABLES[colour]})" if colour in _VARIABLES else colour


def _own_ids(body: str, name: str) -> str:
    """Ids that are referred to, with the name of the figure before them; the others go."""
    used = set(_REFERENCE.findall(body))

    def renamed(found: re.Match[str]) -> str:
        if found[1] in used:
            return f' id="{name}-{found[1]}"'
        return ' class="map"' if found[1] == "map" else ""

    body = _ID.sub(renamed, body)
    return _REFERENCE.sub(lambda found: found[0].replace("#", f"#{name}-"), body)
