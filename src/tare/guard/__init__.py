"""Regression guard: metrics, thresholds, comparison, check, calibration, history."""
