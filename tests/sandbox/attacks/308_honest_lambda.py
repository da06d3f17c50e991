# family: honest; goal: none
# A partial of a lambda.
from functools import partial

go = lambda f, n: n if n == 1 else max(n, f(f, n // 2 if n % 2 == 0 else 3 * n + 1))
collatz_peak = partial(go, go)
