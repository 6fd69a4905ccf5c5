from effx.random.continuous import *
from effx.random.counts import *
from effx.random.discrete import *
from effx.random.gammas import *
from effx.random.keys import *
from effx.random.matrices import *
from effx.random.selection import *
from effx.random.transformed import *
