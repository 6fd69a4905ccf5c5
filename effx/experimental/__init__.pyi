from . import ode
