from effx.scipy.signal.convolving import *
from effx.scipy.signal.spectra import *
from effx.scipy.signal.trends import *
