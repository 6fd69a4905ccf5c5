"""Elementwise operations by theme.

Never: promote dtypes.
"""
