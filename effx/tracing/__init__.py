"""Tracing: stage users' functions of pytrees to programs, once for each signature of arguments."""
