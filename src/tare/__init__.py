"""tare: what every layer of a deep-learning stack weighs."""

__version__ = "0.1.0"
