"""Files by path or URI: local folders, and what Arrow (s3://, gs://, abfss://, hdfs://) and fsspec can reach.

A published file appears whole or not at all. In a local folder, it is written under a temporary name, synced and
renamed. Elsewhere, it is one PUT.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from .errors import JobError

_ARROW_SCHEMES = {"file", "s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"}
TEMPORARY = ".tmp-"


@dataclass(frozen=True)
class Place:
    """A file or folder: its file system, and the path in it. `uri` is what the user wrote; local paths are absolute. Options of
    Arrow's file systems are in the query of the URI: s3://bucket/folder?endpoint_override=host:9000&scheme=http"""

    uri: str
    fs: Any
    path: str
    is_local: bool

    def child(self, name: str) -> Place:
        folder, mark, options = self.uri.partition("?") if "://" in self.uri else (self.uri, "", "")
        return Place(f"{folder.rstrip('/')}/{name}{mark}{options}", self.fs, f"{self.path.rstrip('/')}/{name}", self.is_local)


def place_of(uri: str) -> Place:
    scheme, found, _ = uri.partition("://")
    if not found:
        path = os.path.abspath(uri)
        return Place(path, pafs.LocalFileSystem(), path, True)
    try:
        if scheme in _ARROW_SCHEMES:
            fs, path = pafs.FileSystem.from_uri(uri)
        else:
            import fsspec

            inner, path = fsspec.core.url_to_fs(uri)
            fs = pafs.PyFileSystem(pafs.FSSpecHandler(inner))
    except (ImportError, ValueError, OSError, pa.ArrowException) as error:
        raise JobError(f"{uri}: {error}") from None
    return Place(uri, fs, path, scheme == "file")


@dataclass(frozen=True)
class FileFact:
    """`modified_ns` is 0 if the file system does not know it."""

    name: str
    path: str
    size: int
    modified_ns: int


def list_files(folder: Place, recursive: bool = False) -> list[FileFact]:
    """The files of a folder, by name. An absent folder has none."""
    found = folder.fs.get_file_info(pafs.FileSelector(folder.path, recursive=recursive, allow_not_found=True))
    facts = [FileFact(info.base_name, info.path, info.size or 0, info.mtime_ns or 0) for info in found if info.is_file]
    return sorted(facts, key=lambda fact: fact.path)


def fact_of(place: Place) -> FileFact | None:
    """None for a folder and for an absent file."""
    info = place.fs.get_file_info(place.path)
    return FileFact(info.base_name, info.path, info.size or 0, info.mtime_ns or 0) if info.is_file else None


def read_bytes(place: Place) -> bytes | None:
    """None if the file is absent."""
    if fact_of(place) is None:
        return None
    with place.fs.open_input_stream(place.path) as stream:
        return bytes(stream.read())


def make_folder(folder: Place) -> None:
    if folder.is_local:
        folder.fs.create_dir(folder.path, recursive=True)


def _temporary_path(place: Place) -> str:
    at = pathlib.PurePath(place.path)
    return str(at.parent / f"{TEMPORARY}{at.name}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Publication:
    """A file in the making. Write to `sink`, then publish() or abandon(). One thread uses it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._temporary = _temporary_path(place) if place.is_local else ""
        self.sink: Any = pa.OSFile(self._temporary, "wb") if place.is_local else pa.BufferOutputStream()

    def publish(self) -> int:
        """Gives the file its name, in place of a file that has it. Returns its bytes."""
        if not self._place.is_local:
            data = self.sink.getvalue()
            with self._place.fs.open_output_stream(self._place.path) as stream:
                stream.write(data)
            return int(data.size)
        self.sink.close()
        _sync(self._temporary)
        n_bytes = os.stat(self._temporary).st_size
        os.replace(self._temporary, self._place.path)
        _sync(os.path.dirname(self._place.path))
        return n_bytes

    def abandon(self) -> None:
        if self._place.is_local:
            self.sink.close()
            pathlib.Path(self._temporary).unlink(missing_ok=True)


def publish_bytes(place: Place, data: bytes) -> None:
    publication = Publication(place)
    try:
        publication.sink.write(data)
        publication.publish()
    except BaseException:
        publication.abandon()
        raise


def create_bytes(place: Place, data: bytes) -> bytes:
    """Publishes a file unless it exists. Returns what the file has then: `data`, or that of the one who was first.

    In a local folder this is exclusive. Elsewhere the file is read again after the PUT, so of two writers at the same
    time, all but the last to write may still get their own data.
    """
    if not place.is_local:
        present = read_bytes(place)
        if present is None:
            publish_bytes(place, data)
            present = read_bytes(place)
        return data if present is None else present
    publication = Publication(place)
    temporary = publication._temporary
    try:
        publication.sink.write(data)
        publication.sink.close()
        _sync(temporary)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, place.path)
            _sync(os.path.dirname(place.path))
    finally:
        publication.abandon()
    return pathlib.Path(place.path).read_bytes()


def remove_temporary_files(folder: Place) -> None:
    """Removes what killed writers have left. Only for a finished job: a writer may still use its file."""
    if folder.is_local:
        for fact in list_files(folder):
            if fact.name.startswith(TEMPORARY):
                pathlib.Path(fact.path).unlink(missing_ok=True)
