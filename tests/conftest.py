"""What every test gets, and what every test is checked for. Each plugin says what it does.

The order matters where two plugins wrap the same hook: the wrapper of the later one is the outer one.
"""

pytest_plugins = [
    "fixtures.plugins.surroundings",  # first: it decides what the others import
    "fixtures.plugins.golden_logs",
    "fixtures.plugins.empty_logs",
    "fixtures.plugins.classes_of_tests",
    "fixtures.plugins.order_of_tests",
    "fixtures.plugins.skipped_tests",
    "fixtures.plugins.watched_log",
    "fixtures.plugins.left_behind",  # after the log is checked: `verify` logs what it finds
]
