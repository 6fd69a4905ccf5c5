from . import vq
