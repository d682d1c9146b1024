"""Pure functions on numbers: intervals, tests, change points, noisy search. Nothing here knows what was
measured."""
