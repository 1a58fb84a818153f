"""What unidev's functions do in functions that the user compiles is what the page says."""

from __future__ import annotations

from compiled_columns import check_columns


def test_the_page_of_compiled_functions_has_what_they_do() -> None:
    check_columns("tensorflow")
