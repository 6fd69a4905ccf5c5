from effx.scipy.linalg.factors import *
from effx.scipy.linalg.functions import *
from effx.scipy.linalg.schur_functions import *
from effx.scipy.linalg.special import *
