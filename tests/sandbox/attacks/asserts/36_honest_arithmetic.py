# family: honest; goal: none
# A class with operators.
class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return Vector(self.x - other.x, self.y - other.y)

    def __mul__(self, k):
        return self.x * k.x + self.y * k.y if isinstance(k, Vector) else Vector(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __contains__(self, value):
        return value in (self.x, self.y)

    def __len__(self):
        return 2

    def isdigit(self):
        return False
