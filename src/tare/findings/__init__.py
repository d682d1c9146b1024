"""Findings: named, located inefficiencies with their remedies and savings. The rules are small files in rules/."""

from tare.findings.context import Context, Location, flat, grouped
from tare.findings.finding import Finding, Match, rule
from tare.findings.replay import WhatIf

__all__ = ["Context", "Finding", "Location", "Match", "WhatIf", "flat", "grouped", "rule"]
