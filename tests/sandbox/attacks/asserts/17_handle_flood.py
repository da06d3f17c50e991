# family: resource; goal: harm
# A new object at each look, for ever.
class Account:
    def __init__(self, *_):
        pass

    def __getattr__(self, name):
        return [Account() for _ in range(10_000)]

    def __iter__(self):
        while True:
            yield Account()
