"""Findings: named, located, priced inefficiencies with their remedies. One small file a rule, in rules/."""

from tare.findings.context import Scene
from tare.findings.finding import Finding, Hit, Place
from tare.findings.registry import rule

__all__ = ["Finding", "Hit", "Place", "Scene", "rule"]
