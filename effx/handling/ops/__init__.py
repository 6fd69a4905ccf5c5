"""Every operation class of effx, the traits they have in common, and the data that they hold; frozen at 0.1.

Names stay here when a class moves to another file.

>>> from effx.handling import ops
>>> ops.Add().name, issubclass(ops.Erf, ops.Monotone)
('add', True)
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
