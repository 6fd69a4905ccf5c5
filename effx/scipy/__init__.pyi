from . import linalg, special
