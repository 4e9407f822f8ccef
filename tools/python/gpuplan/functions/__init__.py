"""What writes the calls of each function of torch, by theme: importing the package registers it with gpuplan.lowering."""
from __future__ import annotations

from gpuplan.functions import (
    elementwise, hugging_face, images, indexing, joining, making,
    products, reductions, views, with_weights)

__all__ = ["elementwise", "hugging_face", "images", "indexing", "joining", "making",
           "products", "reductions", "views", "with_weights"]
