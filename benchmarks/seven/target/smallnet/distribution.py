"""Distributions with parameters that must be valid."""

from typing import Any


class Normal:
    def __init__(self, mean: Any, spread: Any) -> None:
        self.mean, self.spread = mean, spread
        if not (spread > 0).all():
            raise ValueError("the parameter spread has invalid values")

    def log_density(self, value: Any) -> Any:
        away = (value - self.mean) / self.spread
        return -0.5 * away * away - self.spread.log()
