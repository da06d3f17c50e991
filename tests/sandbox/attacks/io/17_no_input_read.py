# family: resource; goal: harm
# Never reads its input, which is longer than a pipe holds.
print(0)
