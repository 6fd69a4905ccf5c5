"""Operation classes, one file for each family.

Never: define a handler's rule.
"""
