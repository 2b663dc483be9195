"""One writer per run directory, and readers that notice a changed round."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from intraskill.method.errors import ArtifactError
from intraskill.store.run_directory import locked, locked_beside, seal, verify, write_text

HOLD = """
import sys
from pathlib import Path
from intraskill.store.run_directory import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_second_process_is_refused_while_the_first_one_lives_and_let_in_after_its_death(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        with pytest.raises(ArtifactError, match="another process writes"), locked(root):
            pass
        first.kill()
    with locked(root):
        pass


def test_what_is_written_whole_is_locked_beside_its_place_and_its_neighbours_are_not(tmp_path: Path) -> None:
    hold = HOLD.replace("import locked", "import locked_beside as locked")
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "start")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        with pytest.raises(ArtifactError, match="another process writes .*start;"), locked_beside(tmp_path / "start"):
            pass
        with locked_beside(tmp_path / "other"), locked(tmp_path):
            pass
        assert not (tmp_path / ".other.lock").exists()
        first.kill()


def test_a_directory_made_for_nothing_goes_again_and_what_was_there_or_written_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for root, written in (("mine/new/run", False), ("mine", False), ("other/run", True)):
        with pytest.raises(ZeroDivisionError), locked(tmp_path / root):
            if written:
                (tmp_path / root / "log").write_text("x")
            raise ZeroDivisionError
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        *("mine", "other", "other/run", "other/run/.lock", "other/run/log")
    ]


def test_a_directory_of_somebody_else_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_lock_that_went_while_it_was_waited_for_does_not_let_two_in(tmp_path: Path, monkeypatch) -> None:
    fcntl = pytest.importorskip("fcntl")
    root, flock, ends = tmp_path / "run", fcntl.flock, [True]

    def late(descriptor: int, operation: int) -> None:
        if ends and operation & fcntl.LOCK_EX:  # a refused run ends between this one's open and its flock
            ends.pop()
            (root / ".lock").unlink()
            root.rmdir()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    refused = pytest.raises(ArtifactError, match="another process writes")
    with contextlib.suppress(ArtifactError), locked(root):
        root.mkdir(exist_ok=True)
        with refused, locked(root):
            pass


def test_a_directory_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match="cannot be written"), locked(tmp_path / "file"):
        pass
    with pytest.raises(ArtifactError, match="cannot be written"), locked(Path("/proc/intraskill")):
        pass


def test_a_reader_checks_only_the_files_it_reads(tmp_path: Path) -> None:
    for name in ("skill.md", "other.txt"):
        write_text(tmp_path / name, "whole\n")
    seal(tmp_path)
    (tmp_path / "other.txt").write_text("changed\n")
    verify(tmp_path, "skill.md")
    with pytest.raises(ArtifactError, match="other.txt"):
        verify(tmp_path)
    (tmp_path / "skill.md").write_text("changed\n")
    with pytest.raises(ArtifactError, match="skill.md"):
        verify(tmp_path, "skill.md")
