"""Files that people hand in: what is a text is read however it was saved, and anything else is one sentence."""

import gzip
import io
import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from intraskill.method.errors import ArtifactError, IntraSkillError, SkillFormatError
from intraskill.report.skill_source import skill_source
from intraskill.store import bundles
from intraskill.store.agent_skill import read_skill
from intraskill.store.user_files import read_user_bytes, read_user_text

GOOD = b"## A\n\na text\n"


@pytest.mark.parametrize(
    "data",
    [
        "Größe\nzwei\n".encode(),
        "Größe\nzwei\n".encode("utf-8-sig"),
        "Größe\r\nzwei\r\n".encode(),
        "Größe\rzwei\r".encode(),
        gzip.compress("Größe\r\nzwei\r\n".encode("utf-8-sig")),
        gzip.compress("Größe\n".encode()) + gzip.compress(b"zwei\n"),
    ],
    ids=["plain", "byte-order mark", "CRLF", "CR", "gzip", "gzip in two parts"],
)
def test_a_text_is_read_however_it_was_saved(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)
    assert read_user_text(path) == "Größe\nzwei\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("Größe\n".encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("Größe und Gewicht\n".encode("utf-16-le"), "UTF-16; save it as UTF-8"),
        ("Größe und Gewicht\n".encode("utf-16-be"), "UTF-16; save it as UTF-8"),
        ("Größe\n".encode("utf-32"), "UTF-32; save it as UTF-8"),
        ("a\nGröße\n".encode("latin-1"), r"not UTF-8 \(byte 0xf6 in line 2\); save it as UTF-8"),
        ("价格\n".encode("gb18030"), "iconv -f gb18030"),
        (bytes(100) + b"abc" + bytes(100), "binary, with NUL bytes"),
        (b"%PDF-1.7\n%\xe2\xe3", "a PDF document; give its text"),
        (b"PK\x03\x04rest", "zip archive or an Office document"),
        (b"\x89PNG\r\n\x1a\n", "a picture"),
        (gzip.compress(GOOD, mtime=0)[:-6], "truncated or corrupt gzip file"),
        (gzip.compress(GOOD, mtime=0)[:-8] + bytes(8), "cannot be read .CRC check failed"),
    ],
)
def test_what_is_no_utf_8_is_one_sentence_with_a_remedy(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "text.md"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match=words) as error:
        read_skill(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_unpacks_to_too_much_is_cut_off_in_time(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    with pytest.raises(ArtifactError, match="larger than 16 MiB"):
        read_user_bytes(path)
    with pytest.raises(ArtifactError, match="larger than 0 MiB"):
        read_user_bytes(path, most=10)


def test_what_is_no_file_is_named_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for name, words in {
        "pipe": "it is a pipe; write what comes out of it to a file",  # opening it would wait for ever
        "loop": "Too many levels of symbolic links",
        "gone": "No such file",
        ".": "it is a directory; give a file",
        "a\0b": "null",
    }.items():
        with pytest.raises(ArtifactError, match=f"cannot be read.*{words}"):
            read_user_text(tmp_path / name)
    with pytest.raises(ArtifactError, match="it is a device"):
        read_user_text(Path("/dev/zero"))
    for read in (read_skill, lambda path: skill_source(str(path))):
        with pytest.raises(ArtifactError, match="it is a pipe"):
            read(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(GOOD)
    path.chmod(0)
    with pytest.raises(ArtifactError, match="Permission denied"):
        read_user_text(path)


def archive(path: Path, members: dict[str, bytes], **attributes: int) -> Path:
    """Write an archive; attributes are set on every member."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            for key, value in attributes.items():
                setattr(member, key, value)
            out.writestr(member, data)
    return path


def encrypted(path: Path) -> Path:
    """An archive whose members say that they are encrypted, in both of their headers."""
    data = bytearray(archive(path, {"SKILL.md": GOOD}).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", data, data.index(mark) + offset, 1)
    path.write_bytes(data)
    return path


def lying(path: Path) -> Path:
    """An archive whose member is larger than its headers say."""
    data = bytearray(archive(path, {"SKILL.md": b"x" * 9_000_000}).read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(mark) + offset, 5)
    path.write_bytes(data)
    return path


def packed(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as inner:
        for name, data in members.items():
            inner.writestr(name, data)
    return out.getvalue()


BAD = {
    "a bomb": (lambda p: archive(p, {"SKILL.md": bytes(300 << 20)}), "would unpack .* KiB to 300 MiB"),
    "one large file": (lambda p: archive(p, {"SKILL.md": os.urandom(17 << 20)}), "larger than 16 MiB"),
    "a size that lies": (lying, "cannot be unpacked"),
    "encrypted": (encrypted, "is encrypted, 1: SKILL.md; pack it without a password"),
    "nested": (lambda p: archive(p, {"in.zip": packed({"SKILL.md": GOOD})}), "another archive in it, 1: in.zip"),
    "a path that leads out": (
        lambda p: archive(p, {"SKILL.md": GOOD, "../x": b""}),
        "leads out of the archive, 1: ../x",
    ),
    "an absolute path": (lambda p: archive(p, {"/etc/x": b""}), "leads out"),
    "a path of Windows": (lambda p: archive(p, {"a\\..\\..\\x": b""}), "leads out"),
    "a drive": (lambda p: archive(p, {"C:/x": b""}), "leads out"),
    "a link": (
        lambda p: archive(p, {"SKILL.md": b"/etc/passwd"}, external_attr=(stat.S_IFLNK | 0o777) << 16, create_system=3),
        "1 link or other special files",
    ),
    "too many files": (lambda p: archive(p, {f"{n}": b"" for n in range(10_001)}), "holds 10001 files"),
    "without a skill": (lambda p: archive(p, {"README.md": GOOD}), r"holds no SKILL\.md"),
    "two skills": (lambda p: archive(p, {"a/SKILL.md": GOOD, "b/SKILL.md": GOOD}), r"holds no SKILL\.md"),
    "cut off": (lambda p: p.write_bytes(archive(p, {"SKILL.md": GOOD}).read_bytes()[:-9]) and p, "no zip archive"),
    "no archive": (lambda p: p.write_bytes(GOOD) and p, "no zip archive"),
    "of 0 bytes": (lambda p: p.touch() or p, "no zip archive"),
    "not UTF-8": (
        lambda p: archive(p, {"SKILL.md": "## A\n\nü\n".encode("latin-1")}),
        "SKILL.md cannot be read: it is not",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("suffix", bundles.ARCHIVES)
def test_a_bad_archive_is_one_sentence_and_nothing_is_written(tmp_path: Path, name: str, suffix: str) -> None:
    make, words = BAD[name]
    path = make(tmp_path / f"bad{suffix}")
    with pytest.raises(IntraSkillError, match=words) as error:
        read_skill(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_what_systems_leave_in_archives_is_passed_over(tmp_path: Path) -> None:
    members = {"__MACOSX/._SKILL.md": b"\0\1", "kept/.DS_Store": b"\0", "kept/SKILL.md": GOOD}
    said: list[str] = []
    assert len(read_skill(archive(tmp_path / "a.zip", members), said.append).chunks) == 1 and said == []


def test_a_file_of_0_bytes_holds_no_chunk(tmp_path: Path) -> None:
    (tmp_path / "skill.md").touch()
    with pytest.raises(SkillFormatError, match=r"skill\.md holds no chunk.* A chunk is a section with a heading"):
        read_skill(tmp_path / "skill.md")
