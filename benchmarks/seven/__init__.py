"""The seven problem commits of seed 003 (table 4), planted in a small package with a history of its own."""
