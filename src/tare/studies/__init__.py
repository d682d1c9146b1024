"""Studies: plans with the claims that they test. One TOML file a study, and the rules that decide a claim."""
