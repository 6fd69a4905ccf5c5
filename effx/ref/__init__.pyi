from effx.transforms.references import *
