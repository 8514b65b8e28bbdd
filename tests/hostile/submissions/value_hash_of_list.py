"""A class whose class equals every other and hashes as list does.

expect: below 5
every: wrong
"""


class Lies(type):
    def __hash__(cls):
        return hash(list)

    def __eq__(cls, other):
        return True


class Anything(metaclass=Lies):
    def __len__(self):
        return 1

    def __iter__(self):
        return iter([self])

    def __eq__(self, other):
        return True


def wrong(*args, **kwargs):
    return Anything()
