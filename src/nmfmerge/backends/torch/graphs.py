"""Operations on a GPU, recorded once and played again: launching them one by one takes longer."""

from collections.abc import Callable
from typing import Any

import torch


def record(operations: Callable[[], Any]) -> tuple[Any, Any]:
    """Operations as a graph, and what they return; they are recorded, and not done.

    Their kernels must have been compiled before.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            result = operations()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result
