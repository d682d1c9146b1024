"""Bisection: which version, commit or label changed a figure. Candidates, noisy search, measuring a candidate."""
