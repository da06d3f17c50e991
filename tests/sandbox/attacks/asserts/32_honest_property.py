# family: honest; goal: none
# The balance is a property, the class has slots and a base class.
class Base:
    __slots__ = ("owner",)

    def __init__(self, owner):
        self.owner = owner


class Account(Base):
    __slots__ = ("_cents",)

    def __init__(self, owner, balance=0):
        super().__init__(owner)
        self._cents = balance * 100

    @property
    def balance(self):
        return self._cents // 100

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError
        self._cents += amount * 100
        return self.balance

    def withdraw(self, amount):
        if self._cents < amount * 100:
            raise ValueError
        self._cents -= amount * 100
        return self.balance
