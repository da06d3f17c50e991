"""The rules of the lint, one module a subject. A rule takes the `Setup` and yields findings; it reads nothing else."""
