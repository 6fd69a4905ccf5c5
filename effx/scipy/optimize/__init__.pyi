from effx.scipy.optimize.minimizing import *
from effx.scipy.optimize.results import *
