"""Handlers that are ready to use: each a short module on the public interface.

Never: hold a rule for control flow, or import what is not public.
"""
