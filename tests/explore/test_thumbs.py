"""Small drawings of components."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.thumbs import thumbs
from nmfmerge.plot.side import sides_of


@pytest.mark.parametrize("shape", [(64, 64), (112, 92), (300, 100), (7, 500)])
def test_small_pictures_keep_the_shape_of_large_ones(shape):
    n = shape[0] * shape[1]
    axes = Axis("pixel", np.arange(n)), Axis("frame", np.arange(2))
    left, _ = sides_of(Dataset("movie", np.ones((n, 2)), None, *axes, image_shape=shape))
    html = thumbs(left, np.ones((1, n)), "rows")[0]
    code = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1])
    with Image.open(io.BytesIO(code)) as picture:
        width, height = picture.size
    assert max(width, height) <= 72
    assert abs(height * shape[1] - width * shape[0]) <= max(shape)  # to less than a pixel
