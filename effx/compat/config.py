"""`jax.config`: effx's settings under JAX's names."""

import importlib
import sys
from types import ModuleType
from typing import final

from effx.compat.missing import asked
from effx.compat.settings import Setting, names, parsed, setting

__all__ = ["CompatConfig", "config"]


@final
class CompatConfig:
    """Settings by JAX's names, such as `jax_enable_x64`, as attributes and for `update` and `read`."""

    def update(self, name: str, value: object) -> None:
        """Makes a value the global one of a setting.

        Raises:
            AttributeError: effx has no such setting.
            TypeError, ValueError: the setting does not take this value, or effx does not support the value.
        """
        _check_known(name).assign(value)

    def read(self, name: str) -> object:
        """Returns a setting's value."""
        return _check_known(name).read()

    @property
    def values(self) -> dict[str, object]:
        """The values of all settings, by JAX's names."""
        return {f"jax_{name}": _check_known(name).read() for name in names()}

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are enabled."""
        return bool(self.read("jax_enable_x64"))

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return _check_known(name).read()

    def config_with_absl(self) -> None:
        """Makes each setting a flag of absl's, `--jax_enable_x64` and the like, which `absl.app.run` reads.

        Raises:
            ModuleNotFoundError: absl is not installed.
        """
        flags = importlib.import_module("absl.flags")
        for name in names():
            full = f"jax_{name}"
            if full in flags.FLAGS:
                continue
            if isinstance(_check_known(name).read(), bool):
                flags.DEFINE_bool(full, None, f"jax.config's {full}")
            else:
                flags.DEFINE_string(full, None, f"jax.config's {full}")
        importlib.import_module("absl.app").call_after_init(lambda: self.complete_absl_config(flags))

    def complete_absl_config(self, absl_flags: ModuleType) -> None:
        """Follows the flags that a command line has.

        Args:
            absl_flags: the module `absl.flags`.
        """
        for name in names():
            flag = absl_flags.FLAGS[f"jax_{name}"]
            if flag.present:
                value = flag.value
                _check_known(name).assign(
                    value if isinstance(value, bool) else parsed(f"--jax_{name}", name, value)
                )

    def parse_flags_with_absl(self) -> None:
        """Applies the settings on the command line now; other flags are left for `absl.app.run`.

        Raises:
            ModuleNotFoundError: absl is not installed.
        """
        self.config_with_absl()
        flags = importlib.import_module("absl.flags")
        flags.FLAGS(sys.argv, known_only=True)
        self.complete_absl_config(flags)


def _check_known(name: str) -> Setting:
    result = setting(name)
    if result is None:
        who = asked(f"jax.config.{name}")
        raise AttributeError(
            f"jax.config has no setting {name!r} in effx; {who.file}:{who.line} asks for it; "
            f"there are {', '.join(names())}"
        )
    return result


config = CompatConfig()
