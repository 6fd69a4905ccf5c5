from . import initializers
from effx.nn.activations import *
from effx.nn.attention import *
from effx.nn.encoding import *
from effx.nn.exponentials import *
from effx.nn.microscaling import *
from effx.nn.scaled import *
