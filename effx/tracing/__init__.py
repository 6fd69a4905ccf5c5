"""Tracing: from users' functions of pytrees to programs, staged once for each kind of arguments."""
