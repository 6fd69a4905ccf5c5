from effx.lax.linalg.eigen import *
from effx.lax.linalg.factors import *
from effx.lax.linalg.polar import *
from effx.lax.linalg.reductions import *
