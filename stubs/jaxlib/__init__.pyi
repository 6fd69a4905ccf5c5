# Type stubs for the part of jaxlib that effx calls. They hold for every supported version.

from .version import __version__ as __version__
