"""Control flow: branches, loops, scans and implicitly defined functions, as single operations."""
