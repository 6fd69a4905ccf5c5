"""Families of operations that no handler needs for itself: each module holds its operations whole.

A module defines a family's classes with their typing rules, StableHLO, derivatives, batching, transposes and NumPy
references, and the domains that samples are drawn from. It is written on `effx.handling`, as a user writes
operations; what it cannot say there is a gap of that interface.

Never: hold what derivatives, batching or control flow are made of; that is the core calculus, in `effx.ir.ops`.
"""
