"""The tables of an index, and opening the file that holds them.

An index can always be made again from the lines. So nothing in it is repaired: one of another version, or
one that the database finds damaged, is thrown away and made anew. It lies beside the lines with their
rights, and is only written by who holds its lock.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from egress.errors import UnreadableError
from egress.review.line_fields import FIELDS_BY_NAME, TOTALS_FIELDS

NAME = "index.sqlite3"
VERSION = 4
"""Raise it with every change of a table, or of what a column means: older files are made anew."""
MARK = 0x45475249
"""What the database says it belongs to; `EGRI`."""


def _columns(*names: str) -> str:
    kinds = {True: "INTEGER", False: "TEXT"}
    return ", ".join(f"{name} {kinds[FIELDS_BY_NAME[name].is_number]} NOT NULL" for name in names)


TABLES = f"""
CREATE TABLE file (
  number INTEGER PRIMARY KEY,
  done INTEGER NOT NULL,      -- bytes that are indexed, up to a line end
  size INTEGER NOT NULL,
  node INTEGER NOT NULL,
  changed INTEGER NOT NULL,   -- nanoseconds, as the file system says
  tail BLOB NOT NULL          -- the last bytes that are indexed
);
CREATE TABLE grp (
  id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,
  {_columns(*TOTALS_FIELDS)}
);
CREATE TABLE shape (
  id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, grp INTEGER NOT NULL,
  {_columns(*FIELDS_BY_NAME)}
);
CREATE INDEX shape_host ON shape (host);
CREATE TABLE block (
  id INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice: `words` may know of one that is gone
  file INTEGER NOT NULL, at INTEGER NOT NULL, size INTEGER NOT NULL, lines INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL,   -- the earliest and the latest moment
  is_open INTEGER NOT NULL,
  shapes BLOB NOT NULL        -- those that come up in it, each once
);
CREATE UNIQUE INDEX block_place ON block (file, at);
CREATE TABLE lines (block INTEGER PRIMARY KEY, places BLOB NOT NULL, numbers BLOB NOT NULL,
  texts BLOB NOT NULL);
CREATE TABLE ids (block INTEGER PRIMARY KEY, requests BLOB NOT NULL, connections BLOB NOT NULL);
CREATE TABLE odd (file INTEGER NOT NULL, block INTEGER NOT NULL, at INTEGER NOT NULL,
  size INTEGER NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (file, at)) WITHOUT ROWID;
CREATE TABLE hour (file INTEGER NOT NULL, start INTEGER NOT NULL, grp INTEGER NOT NULL,
  requests INTEGER NOT NULL, up INTEGER NOT NULL, down INTEGER NOT NULL, took BLOB NOT NULL,
  PRIMARY KEY (file, start, grp)) WITHOUT ROWID;
CREATE TABLE day (start INTEGER NOT NULL, grp INTEGER NOT NULL,
  requests INTEGER NOT NULL, up INTEGER NOT NULL, down INTEGER NOT NULL, took BLOB NOT NULL,
  PRIMARY KEY (start, grp)) WITHOUT ROWID;
CREATE TABLE clock (start INTEGER NOT NULL, grp INTEGER NOT NULL,   -- here a kind: see `KINDS` in `indexer`
  requests INTEGER NOT NULL, up INTEGER NOT NULL, down INTEGER NOT NULL, took BLOB NOT NULL,
  PRIMARY KEY (start, grp)) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5(text, tokenize='trigram', content='', detail=none);
"""
"""`words` has a row for each block that is full: the texts in its lines. `hour`, `day` and
`clock` add up the blocks that are full, `hour` for each file; `ids` holds four bytes for each id."""

SETTINGS = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 0",
)


class StaleIndexError(UnreadableError):
    """The index is of another version, or damaged: it has to be made anew."""

    code = "log.index"


def open_to_write(place: Path) -> sqlite3.Connection:
    """Open an index, made when there is none, made anew when it is no good. For who holds its lock.

    Raises `OSError` and `sqlite3.Error`.
    """
    try:
        return _opened(place)
    # A busy or unreadable index is no damaged one, and must not be deleted for it.
    except (StaleIndexError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.Error) and not is_damage(error):
            raise
    throw_away(place)
    return _opened(place)


def is_damage(error: sqlite3.Error) -> bool:
    """True if the file is damaged, and not only hard to get at."""
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _make(place: Path) -> None:
    """Make the file where there is none: with the rights of the lines, and never through a link.

    One that is there must not be opened by anybody but the database. A process that closes any descriptor
    of a file gives back all locks that it holds on it, those of its other connections too; another process
    then takes itself for the last one and clears away what these still read from.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # `O_EXCL` with `O_NOFOLLOW`: a file or link that somebody prepared is never opened for writing.
        os.close(os.open(place, flags, 0o640))
    except FileExistsError:
        if place.is_symlink():
            raise


def _opened(place: Path) -> sqlite3.Connection:
    _make(place)
    connection = _connected(place, "rw")
    try:
        if not _version(connection):
            # The page size has to be set before the first table, and WAL before the transaction.
            connection.execute("PRAGMA page_size = 16384")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(f"BEGIN; {TABLES} PRAGMA application_id = {MARK};")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        _check(connection)
        # A crash may cost the index, which is made again from the lines; durability would cost time on every
        # write.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 2000")
        connection.execute("INSERT INTO words(words, rank) VALUES ('automerge', 8)")
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_read(place: Path) -> sqlite3.Connection:
    """Open an index that another process may be writing. Raises `StaleIndexError` and `sqlite3.Error`."""
    connection = _connected(place, "ro")
    try:
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(place: Path, mode: str) -> sqlite3.Connection:
    uri = f"{place.absolute().as_uri()}?mode={mode}"
    # A web page asks from several threads, one at a time.
    connection = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None, check_same_thread=False)
    try:
        # No trusted schema and no mapping: the file may have been tampered with, and may shrink meanwhile.
        for setting in SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _check(connection: sqlite3.Connection) -> None:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    if mark != MARK or _version(connection) != VERSION:
        raise StaleIndexError("this index was made by another version", "it is made anew by itself")
    # A first read finds a file that has the right marks and is no database behind them.
    connection.execute("SELECT max(id) FROM block").fetchone()


def throw_away(place: Path) -> None:
    """Delete an index and what belongs to it. Raises `OSError`."""
    # The database goes with its journals: an old WAL would be played into the new file.
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            place.with_name(place.name + suffix).unlink()
