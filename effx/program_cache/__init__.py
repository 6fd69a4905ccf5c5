"""Staged programs on disk: a process that meets a function which another one has staged neither traces nor lowers it.

`bytecode` says what code reads, `trusted` what needs no look inside, `walk` goes over everything that a function
reaches, `entries` are the files, `recall` is what `jit` asks.
"""
