"""effx: composable effects for numerical Python, built directly on jaxlib."""
