"""The typed public transformations.

They stand below `effx.lax` and `effx.numpy`: functions of several operations there (samplers, quantiles) are
wrapped in `jit`, so that an eager call is one dispatch.

Never: interpret an operation; handlers do.
"""
