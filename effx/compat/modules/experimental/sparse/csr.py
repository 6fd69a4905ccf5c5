"""`jax.experimental.sparse.csr`."""

from effx.experimental.sparse import CSC, CSR, csr_fromdense, csr_matmat, csr_matvec, csr_todense

__all__ = ["CSC", "CSR", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense"]
