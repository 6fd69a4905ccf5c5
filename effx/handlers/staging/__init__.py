"""Staging: running a function on variables and recording what it performs as a program."""
