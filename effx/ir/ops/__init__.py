"""Operation classes, a family a file.

Never: say what a handler makes of them.
"""
