from effx.experimental.sparse.base import *
from effx.experimental.sparse.bcoo import *
from effx.experimental.sparse.entries import *
from effx.experimental.sparse.layout import *
from effx.experimental.sparse.products import *
from effx.experimental.sparse.slicing import *
