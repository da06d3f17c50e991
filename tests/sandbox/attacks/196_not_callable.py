# family: source; goal: none
# The name is there, but it is a number.
collatz_peak = 16
