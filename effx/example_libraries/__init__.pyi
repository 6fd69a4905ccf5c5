from . import optimizers, stax
