# family: honest; goal: none
# A data class with a subclass of the wanted exception.
from dataclasses import dataclass, field


class NotEnough(ValueError):
    pass


@dataclass
class Account:
    owner: str
    balance: int = 0
    log: list = field(default_factory=list)

    def deposit(self, amount: int) -> int:
        if amount <= 0:
            raise NotEnough(amount)
        return self._book(amount)

    def withdraw(self, amount: int) -> int:
        if amount > self.balance:
            raise NotEnough(amount)
        return self._book(-amount)

    def _book(self, amount: int) -> int:
        self.log.append(amount)
        self.balance += amount
        return self.balance
