"""Programs as StableHLO text."""
