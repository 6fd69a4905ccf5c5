from . import linalg
