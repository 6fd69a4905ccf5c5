"""Functions with users' rules: `custom_jvp`, `custom_vjp`, `custom_vmap`, `closure_convert`, `named_function`."""
