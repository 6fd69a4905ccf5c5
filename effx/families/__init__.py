"""Families of operations that no handler needs itself: each module holds everything about its operations.

A module defines a family's classes with their typing rules, StableHLO, derivatives, batching, transposes and
NumPy oracles, and the domains that samples are drawn from. It is written on `effx.handling`, as a user
writes operations.

An operation that XLA, LAPACK or a handler must treat as one is a class of a module here; what other operations
can express is a function.

Never: hold an operation that derivatives, batching or control flow perform; those are in `effx.ir.ops`.
"""
