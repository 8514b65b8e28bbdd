"""Which entries of a dict a function looks at: of a model with eighty, the three that matter."""

import copy
from collections.abc import Mapping


class ReadDict(dict):
    """The part of a dict that was looked at. narrowed: whether the whole holds more."""

    narrowed = False


class _Watched(Mapping, dict):
    """A dict that remembers which of its keys were asked for; going through it asks for all.

    Mapping's methods come to these two.
    """

    def __init__(self, entries):
        dict.__init__(self, ((key, watched(value)) for key, value in entries.items()))
        self.asked = set()

    def __getitem__(self, key):
        self.asked.add(key)
        return dict.__getitem__(self, key)

    def __iter__(self):
        self.asked.update(dict.keys(self))
        return dict.__iter__(self)

    def __len__(self):
        return dict.__len__(self)

    def copy(self):
        return dict(self)


def watched(value):
    """A copy in which every dict remembers what was asked of it."""
    if type(value) is dict:
        return _Watched(value)
    if type(value) in (list, tuple):
        return type(value)(map(watched, value))
    return copy.deepcopy(value)


def narrowed(function, args, kwargs):
    """(args, kwargs) with, of each dict, what `function` asked for when it was called with them."""
    if not any(_holds_dict(value) for value in (*args, *kwargs.values())):
        return args, kwargs
    args = tuple(map(watched, args))
    kwargs = {key: watched(value) for key, value in kwargs.items()}
    try:
        function(*args, **kwargs)
    except Exception:  # it may refuse them: what it has looked at until then is the reason
        pass
    return tuple(map(_asked, args)), {key: _asked(value) for key, value in kwargs.items()}


def _holds_dict(value):
    rows = type(value) in (list, tuple)
    return type(value) is dict or rows and any(_holds_dict(item) for item in value[:9])


def _asked(value):
    if isinstance(value, _Watched):
        entries = dict(dict.items(value))
        wanted = value.asked or entries  # nothing was asked for: it was handed on whole
        part = ReadDict((key, _asked(entries[key])) for key in entries if key in wanted)
        part.narrowed = len(part) < len(entries)
        return part
    return type(value)(map(_asked, value)) if type(value) in (list, tuple) else value
