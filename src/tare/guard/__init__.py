"""Watching that it does not get worse: what may be compared, metrics, thresholds, check, calibration."""
