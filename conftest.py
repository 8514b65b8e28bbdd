"""The one switch: LAB_IMPL chooses what is tested, `solution` (the default) or `starter`.

The machinery stands in labkit/: loading (which file), plugin (the `lab` fixture, tiers, outcomes),
scoreboard (what a learner reads at the end), mistakes (hints), starters, expect (failure text).
"""

pytest_plugins = ["labkit.plugin"]
