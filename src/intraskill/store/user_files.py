r"""Files that a person hands in: from bytes to text, or one sentence on why a file cannot be used and what to do.

A byte-order mark is taken off, line ends become ``\n``, and a gzipped file is unpacked. Files of this project itself
are read by `intraskill.store.run_directory`.
"""

import codecs
import gzip
import io
import json
import stat
import zlib
from pathlib import Path
from typing import Any

from intraskill.method.errors import ArtifactError, IntraSkillError

MOST_TEXT = 16 << 20
"""Bytes of a skill or another document for a reader, unpacked."""
MOST_ROWS = 16 << 30
"""Bytes of a file of rows, unpacked."""
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_BINARIES = (
    (b"%PDF", "a PDF document; give its text as Markdown"),
    (b"PK\x03\x04", "a zip archive or an Office document; unpack it, or save the document as Markdown"),
    (b"\xd0\xcf\x11\xe0", "an Office document; save it as Markdown"),
    (b"\x89PNG", "a picture; give a text"),
    (b"\xff\xd8\xff", "a picture; give a text"),
    (b"\x7fELF", "a program; give a text"),
)
_MOST_ZEROS = 20
"""A text has fewer than one NUL byte in so many."""
_BINARY = "binary, with NUL bytes; give a text"
_KINDS = (
    (stat.S_ISDIR, "it is a directory; give a file"),
    (stat.S_ISFIFO, "it is a pipe; write what comes out of it to a file, and give that"),
    (stat.S_ISCHR, "it is a device; give a file"),
    (stat.S_ISBLK, "it is a device; give a file"),
    (stat.S_ISSOCK, "it is a socket; give a file"),
)


def read_user_bytes(path: Path, *, where: str = "", most: int = MOST_TEXT) -> bytes:
    """Return the content of a file, unpacked when it is gzipped.

    Args:
        path: the file.
        where: how messages name it; by default its path.
        most: bytes that it may have, unpacked.

    Raises:
        ArtifactError: when it is missing, unreadable, no regular file, too large, or a broken gzip file.
    """
    where = where or str(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its other end
            raise _unusable(where, next((why for test, why in _KINDS if test(mode)), "it is no file; give one"))
        with path.open("rb") as stream:
            data = stream.read(most + 1)
        if len(data) <= most and data.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(most + 1)
    except (EOFError, zlib.error) as error:
        raise ArtifactError(f"{where} is a truncated or corrupt gzip file ({error}); fetch it again") from error
    except (OSError, ValueError) as error:  # BadGzipFile is an OSError; a NUL in a name is a ValueError
        raise ArtifactError(f"{where} cannot be read ({error}); give the path of a file that can") from error
    if len(data) > most:
        raise _unusable(where, f"it is larger than {_size(most)}; give a smaller one, or parts of it")
    return data


def decoded(data: bytes, where: str) -> str:
    r"""Return the text of a file without its byte-order mark, with ``\n`` as line end.

    Raises:
        ArtifactError: for another encoding than UTF-8, and for what is no text.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            raise _unusable(where, f"it is not UTF-8 but {name}; save it as UTF-8")
    for magic, what in _BINARIES:
        if data.startswith(magic):
            raise _unusable(where, f"it is {what}")
    if _MOST_ZEROS * data[:4096].count(0) > len(data[:4096]):
        even, odd = data[:4096:2].count(0), data[1:4096:2].count(0)
        one_sided = max(even, odd) > 9 * min(even, odd)
        raise _unusable(where, f"it is not UTF-8 but {'UTF-16; save it as UTF-8' if one_sided else _BINARY}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        why = (
            f"it is not UTF-8 (byte 0x{byte:02x} in line {line}); save it as UTF-8, as iconv -f gb18030 -t utf-8 does "
            "for Chinese and iconv -f windows-1252 -t utf-8 for Western text"
        )
        raise _unusable(where, why) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_user_text(path: Path, *, where: str = "", most: int = MOST_TEXT) -> str:
    """Return the text of a file; see `read_user_bytes` and `decoded`."""
    return decoded(read_user_bytes(path, where=where, most=most), where or str(path))


def read_user_json(path: Path, *, where: str = "", wanted: str = "give a JSON file") -> Any:
    """Return the JSON value of a file.

    Raises:
        ArtifactError: when it cannot be read, or is not valid JSON.
    """
    where = where or str(path)
    text = read_user_text(path, where=where, most=MOST_ROWS)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{where} is not valid JSON ({error}); {wanted}") from error


def _unusable(where: str, why: str) -> IntraSkillError:
    return ArtifactError(f"{where} cannot be read: {why}")


def _size(count: int) -> str:
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
