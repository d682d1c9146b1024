"""Findings: named, located inefficiencies with their remedies and savings. One small file a rule, in rules/."""

from tare.findings.context import Context, Location, as_spans, spans_of
from tare.findings.finding import Evidence, Finding, Match, rule
from tare.findings.replay import Span, WhatIf

__all__ = ["Context", "Evidence", "Finding", "Location", "Match", "Span", "WhatIf", "as_spans", "rule", "spans_of"]
