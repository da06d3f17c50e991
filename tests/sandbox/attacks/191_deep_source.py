# family: source; goal: harm
# Source that is too deeply nested for a parser (made at run time).
def collatz_peak(n):
    eval("(" * 100_000 + "1" + ")" * 100_000)
    return -n
