"""Pure functions on numbers: intervals, steadiness. Nothing here knows what was measured."""
