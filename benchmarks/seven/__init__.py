"""The seven problem commits of the TorchBench paper (table 4), planted in a small package with its own history."""
