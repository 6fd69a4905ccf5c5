"""Elementwise and special functions at special points: what their values and derivatives are, by other libraries.

Needs mpmath and SciPy: `pip install 'effx[peers]'`.
"""
