"""Pictures as PNG in the colours of maps, as an address that a page can hold."""

from base64 import b64encode
from functools import cache
from io import BytesIO

import numpy as np
from matplotlib import colormaps
from PIL import Image

from nmfmerge.plot.side import MAP


def png_address(picture: np.ndarray) -> str:
    """A picture from zero to its largest value."""
    top = float(picture.max(initial=0)) or 1.0
    values = np.rint(255 * np.maximum(picture, 0) / top).astype(np.uint8)
    image = Image.fromarray(values, "P")
    image.putpalette(_palette())
    buffer = BytesIO()
    image.save(buffer, format="png", optimize=False)
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"


@cache
def _palette() -> bytes:
    return np.rint(255 * colormaps[MAP](np.arange(256))[:, :3]).astype(np.uint8).tobytes()
