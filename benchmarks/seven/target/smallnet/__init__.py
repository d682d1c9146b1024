"""A small target: layers of which a later commit makes one worse."""
