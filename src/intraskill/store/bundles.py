"""The files of a skill: a folder, or an archive (``.skill``, ``.zip``) that is read in memory and never unpacked."""

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from intraskill.method.errors import ArtifactError, counted, offenders
from intraskill.method.skill.agent_skill import SKILL_FILE
from intraskill.store.user_files import MOST_TEXT, decoded, read_user_bytes

ARCHIVES = (".skill", ".zip")
MOST_FILES = 10_000
MOST_UNPACKED = 1 << 30
"""Bytes that an archive may say it holds."""
_MOST_RATIO = 200


@dataclass(frozen=True)
class Bundle:
    """Some files by their path relative to ``SKILL.md``.

    Attributes:
        path: of the folder or archive.
        files: relative paths with ``/``, sorted.
        content: reads one of them.
    """

    path: Path
    files: tuple[str, ...]
    content: Callable[[str], bytes]

    def where(self, name: str) -> str:
        """Return how messages name a file."""
        return str(self.path / name)

    def text(self, name: str) -> str:
        """Return the text of a file.

        Raises:
            ArtifactError: when it is not there, or no text in UTF-8.
        """
        return decoded(self.content(name), self.where(name))

    @property
    def skill_file(self) -> str | None:
        """``SKILL.md``, whatever the case of its name."""
        alike = [name for name in self.files if name.casefold() == SKILL_FILE.casefold()]
        return SKILL_FILE if SKILL_FILE in alike else next(iter(alike), None)


def is_archive(path: Path) -> bool:
    """Return whether a file is a skill's archive, by its name."""
    return path.suffix.lower() in ARCHIVES and path.is_file()


def bundle_of(path: Path) -> Bundle:
    """Return the files of a folder or an archive.

    Raises:
        ArtifactError: when they cannot be listed, or an archive is broken, too large, encrypted, or holds a file that
            would lie outside of it, or a link.
    """
    if path.is_dir():
        return Bundle(path, tuple(sorted(_below(path))), lambda name: read_user_bytes(path / name))
    return _archive(path)


def _below(folder: Path) -> Iterator[str]:
    """Yield the files of a folder, but no hidden ones, and no more than a skill can have."""
    try:
        os.listdir(folder)
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be read ({error}); give the path of a folder that can") from error
    left = MOST_FILES
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith("."))[:left]:
            yield Path(place, name).relative_to(folder).as_posix()
        left -= min(left, len(names))


def _archive(path: Path) -> Bundle:
    data = read_user_bytes(path, most=MOST_UNPACKED)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = [member for member in archive.infolist() if not member.is_dir()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise ArtifactError(f"{path} is no zip archive, or a broken one ({error}); pack it anew") from error
    _check(path, members)
    by_name = {member.filename: member for member in members if not _is_rubbish(member.filename)}
    root = _root(list(by_name))
    within = {name.removeprefix(root): member for name, member in by_name.items() if name.startswith(root)}

    def content(name: str) -> bytes:
        where = path / name
        if name not in within:
            raise ArtifactError(f"{where} cannot be read: the archive holds no such file; pack it anew")
        if within[name].file_size > MOST_TEXT:
            raise ArtifactError(f"{where} cannot be read: it is larger than {MOST_TEXT >> 20} MiB; shorten it")
        try:
            with archive.open(within[name]) as stream:
                return stream.read(MOST_TEXT)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            raise ArtifactError(f"{where} cannot be unpacked ({error}); pack the archive anew") from error

    return Bundle(path, tuple(sorted(within)), content)


def _check(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive as a whole for what no skill's archive holds."""
    size, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
    if len(members) > MOST_FILES:
        raise ArtifactError(f"{path} holds {len(members)} files, at most {MOST_FILES}; pack the skill alone")
    if size > MOST_UNPACKED or (size > MOST_TEXT and size > _MOST_RATIO * packed):
        raise ArtifactError(
            f"{path} would unpack {packed >> 10} KiB to {size >> 20} MiB, as no skill does; pack the skill alone"
        )
    if outside := [member.filename for member in members if _is_outside(member)]:
        raise ArtifactError(
            f"{path} holds {counted(len(outside), 'file')} whose path leads out of the archive, {offenders(outside)}; "
            "pack it anew with relative paths"
        )
    if links := [member.filename for member in members if not _is_regular(member)]:
        raise ArtifactError(
            f"{path} holds {counted(len(links), 'link')} or other special files, {offenders(links)}; pack the files "
            "themselves"
        )
    if locked := [member.filename for member in members if member.flag_bits & 1]:
        raise ArtifactError(f"{path} is encrypted, {offenders(locked)}; pack it without a password")


def _is_outside(member: zipfile.ZipInfo) -> bool:
    name = member.orig_filename.replace("\\", "/")
    return name.startswith("/") or name[1:2] == ":" or "\0" in name or ".." in PurePosixPath(name).parts


def _is_regular(member: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(member.external_attr >> 16)
    return kind in (0, stat.S_IFREG)


def _is_rubbish(name: str) -> bool:
    """Whether a file is what systems leave in archives and folders, such as ``__MACOSX``."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _root(names: list[str]) -> str:
    """Return the folder of an archive's ``SKILL.md``, when it has one only; with a ``/`` at its end."""
    if any(name.casefold() == SKILL_FILE.casefold() for name in names):
        return ""
    inside = [name for name in names if name.count("/") == 1 and name.casefold().endswith(f"/{SKILL_FILE.casefold()}")]
    return inside[0].partition("/")[0] + "/" if len(inside) == 1 else ""
