from effx.debug.shardings import *
