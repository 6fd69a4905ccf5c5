"""The typed public transformations.

Never: interpret an operation; handlers do.
"""
