"""Emit programs as StableHLO text."""
