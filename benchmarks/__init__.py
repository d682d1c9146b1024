"""What measures tare itself. Ratios within one run: the machines are noisy."""
