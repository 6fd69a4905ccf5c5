from effx.debug.printing import *
from effx.debug.shardings import *
from effx.debug.breakpoints import *
