from effx.numpy.linalg.factors import *
from effx.numpy.linalg.norms import *
from effx.numpy.linalg.products import *
from effx.numpy.linalg.systems import *
