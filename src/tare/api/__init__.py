"""The public Python API, each function in a file of its own; `tare` itself offers them all."""
