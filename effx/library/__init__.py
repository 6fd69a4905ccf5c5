"""Handlers that are ready to use: each a short module, written on the public interface that users have.

Never: hold a rule for control flow, or import what is not public.
"""
