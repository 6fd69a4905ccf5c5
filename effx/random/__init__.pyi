from effx.random.continuous import *
from effx.random.discrete import *
from effx.random.keys import *
from effx.random.selection import *
