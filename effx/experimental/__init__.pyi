from . import jet, ode
