"""`jax.config`: effx's settings under JAX's names."""

from typing import final

from effx.compat.missing import asked
from effx.flags import FLAGS
from effx.flags import config as settings

__all__ = ["Config", "config"]


@final
class Config:
    """Settings by JAX's names, such as `jax_enable_x64`, as attributes and for `update` and `read`."""

    def update(self, name: str, value: object) -> None:
        """Makes a value the global one of a setting.

        Raises:
            AttributeError: effx has no such setting.
            TypeError, ValueError: the setting does not take this value.
        """
        settings.update(self._known(name), value)

    def read(self, name: str) -> object:
        """Returns a setting's value."""
        return settings.read(self._known(name))

    @property
    def values(self) -> dict[str, object]:
        """The values of all settings, by JAX's names."""
        return {f"jax_{name}": value for name, value in settings.values().items()}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are kept."""
        return settings.enable_x64

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return settings.read(self._known(name))

    def _known(self, name: str) -> str:
        own = name.removeprefix("jax_")
        if own not in FLAGS:
            who = asked(f"jax.config.{name}")
            raise AttributeError(
                f"jax.config has no setting {name!r} in effx; {who.file}:{who.line} asks for it; "
                f"there are {', '.join(sorted(FLAGS))}"
            )
        return own


config = Config()
