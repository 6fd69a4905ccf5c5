"""Families of operations that no handler needs for itself: each module holds its operations whole.

A module defines a family's classes with their typing rules, StableHLO, derivatives, batching, transposes and
NumPy references, and the domains that samples are drawn from. It is written on `effx.handling`, as a user
writes operations.

An operation that XLA, LAPACK or a handler must know as one thing is a class of a module here; whatever can be
said by others is a function.

Never: hold an operation that derivatives, batching or control flow perform; those are in `effx.ir.ops`.
"""
