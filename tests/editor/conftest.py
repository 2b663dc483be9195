"""A toy editor that mostly writes valid actions, once per session."""

import pytest
from editor.editing import write_editor


@pytest.fixture(scope="session")
def editing_place(tmp_path_factory):
    """A folder with ``model``."""
    place = tmp_path_factory.mktemp("editing")
    write_editor(place / "model")
    return place
