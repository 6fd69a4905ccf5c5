"""Staging: run a function on variables, and record its operations as a program."""
