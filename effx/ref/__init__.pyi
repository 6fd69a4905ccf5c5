from effx.transforms.refs.ref import *
