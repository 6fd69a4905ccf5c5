from effx.scipy.special.entropies import *
from effx.scipy.special.gammas import *
from effx.scipy.special.normals import *
from effx.scipy.special.sums import *
