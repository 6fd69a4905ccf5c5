"""Operation classes, a family a file.

Never: hold a handler's rule.
"""
