"""effx against JAX: time to trace, lower, dispatch, compile and run, as ratios with budgets.

Never: is imported by effx or by its tests.
"""
