"""Operations of linear algebra: matrix factorizations, and solutions of triangular systems.

All work on the last two axes of their operands, for each index of the axes before.
"""
