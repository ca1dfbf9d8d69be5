"""No modules import each other in a circle when they run. Imports for type checkers alone may form one."""

from __future__ import annotations

import grimp
import pytest

pytestmark = pytest.mark.unit


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other by imports."""
    reached = {module: _reachable(module, imports) for module in imports}
    found = (frozenset({module, *(each for each in reached[module] if module in reached[each])}) for module in imports)
    return {circle for circle in found if len(circle) > 1}


def _reachable(start: str, imports: dict[str, set[str]]) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        following = imports[waiting.pop()] - reached
        reached |= following
        waiting += following
    return reached


def test_a_circle_is_found_with_all_its_modules_and_no_others() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == {frozenset("bc")}


def test_modules_import_each_other_in_no_circle() -> None:
    graph = grimp.build_graph(
        "offsetfs", include_external_packages=False, exclude_type_checking_imports=True, cache_dir=None
    )
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert circles(imports) == set()
