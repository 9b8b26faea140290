"""The few pieces of HTML that a page is made of; every text that comes in is escaped here."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO

from matplotlib.figure import Figure

from nmfmerge.report.svg import inline

_LARGE = 800_000  # letters; beyond, pixels are smaller than lines
_WORDY = 24  # letters
_PHONE = 460  # pixels; wider figures are scrolled on a phone
_WIDE_FIGURE = ' class="scrolled"'
_LONG_FACT = ' class="long"'


def _prose(text: str) -> str:
    """A text whose numbers are not torn from their percent signs."""
    return escape(text).replace(" %", "\u00a0%")


def paragraph(*sentences: str) -> str:
    """Sentences as a paragraph."""
    return f"<p>{_prose(' '.join(sentences))}</p>"


def bullets(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return "<ul>" + "".join(f"<li>{_prose(sentence)}</li>" for sentence in sentences) + "</ul>"


def topics(pairs: Iterable[tuple[str, str]]) -> str:
    """Topics with their sentences; empty if there are none."""
    rows = (f"<dt>{escape(topic)}</dt><dd>{_prose(said)}</dd>" for topic, said in pairs)
    text = "".join(rows)
    return f'<dl class="topics">{text}</dl>' if text else ""


def code(text: str) -> str:
    """A command or a program, as typed."""
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names with their values; long values get a line of their own."""
    rows = (
        f"<div{_LONG_FACT if len(str(v)) > _WORDY else ''}>"
        f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd></div>"
        for k, v in pairs
    )
    return f'<dl class="facts">{"".join(rows)}</dl>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], caption: str, text: Sequence[int] = (0,)
) -> str:
    """A table that scrolls in a box of its own where it is too wide; ``text``: columns of words."""
    kinds = [' class="text"' if i in text else "" for i in range(len(head))]
    top = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{escape(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(drawing: Figure, name: str, alt: str, caption: str = "") -> str:
    """A drawing inside the page: lines where that is small, pixels where it is not."""
    width, _ = (round(96 * inches) for inches in drawing.get_size_inches())
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    drawn, kind = inline(drawing, name, alt), "chart"
    if len(drawn) > _LARGE:
        drawn, kind = _pixels(drawing, alt), "pixels"
    return (
        f'<figure{_WIDE_FIGURE if width > _PHONE else ""}><div class="wide card {kind}" '
        f'style="--w: {width}px" role="region" aria-label="Figure" tabindex="0">{drawn}</div>'
        f"{text}</figure>"
    )


def _pixels(drawing: Figure, alt: str) -> str:
    buffer = BytesIO()
    drawing.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    data = b64encode(buffer.getvalue()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
