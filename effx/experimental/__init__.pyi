from . import jet, ode, sparse
