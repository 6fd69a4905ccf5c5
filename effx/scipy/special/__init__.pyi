from effx.scipy.special.entropies import *
from effx.scipy.special.exponential_integrals import *
from effx.scipy.special.faddeeva import *
from effx.scipy.special.gammas import *
from effx.scipy.special.harmonics import *
from effx.scipy.special.normals import *
from effx.scipy.special.single import *
from effx.scipy.special.sums import *
