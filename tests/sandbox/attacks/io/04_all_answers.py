# family: forge; goal: marks
# Prints every small number: the right one is among them.
for i in range(-2000, 2000):
    print(i)
