"""One handler for each operator of core ATen. Importing this package registers them."""

from tare.rungs.vendor.fusion.operators import (  # noqa: F401
    convolutions,
    indexing,
    pointwise,
    pooling,
    products,
    rearranging,
    reducing,
    resampling,
)
