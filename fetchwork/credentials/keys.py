"""The keys of credentials: pairs of X25519, for the sealed boxes of libsodium.

The public key is enough to seal, and only the private key opens: submitters and the database have the public
keys, hosts have the private keys, in a file (``KeyFile``) that no job may read. The pool's key is on the
hosts that are trusted with all credentials. A host that joined has a key of its own (``own_key_text``).
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import os
import stat
from pathlib import Path

from fetchwork.errors import CredentialError

#: bytes of a key, public or private
KEY_BYTES = 32
#: bytes of a key file that are read: a line for each key
_MOST_BYTES = 65536
_HEADING = "# private keys of credentials, one a line, the newest last; for fetchwork agents alone\n"


def key_id(public: bytes) -> str:
    """Return the name of a public key, computed as in the database."""
    return hashlib.sha256(public).hexdigest()[:16]


def seal(data: bytes, public: bytes) -> bytes:
    """Seal data so that only the private key of ``public`` can open it."""
    # imported here: libsodium would cost a command that seals nothing some milliseconds
    from nacl.public import PublicKey, SealedBox

    if len(public) != KEY_BYTES:
        raise CredentialError(f"a public key has {KEY_BYTES} bytes, and not {len(public)}")
    return bytes(SealedBox(PublicKey(public)).encrypt(data))


def own_key_text() -> str:
    """The text of a file with one new key, of a host that joined (``write_private``)."""
    from nacl.public import PrivateKey

    return _HEADING + base64.b64encode(bytes(PrivateKey.generate())).decode() + "\n"


class KeyFile:
    """The private keys of a host: a file that only its agent reads, and reads again after a change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, bytes] = {}
        self._last = ""

    def problem(self) -> str | None:
        """Return why the file can't open anything; None if it can."""
        try:
            self._read()
        except CredentialError as error:
            return str(error)
        return None

    def key_ids(self) -> list[str]:
        """Return the names of its keys, the newest last; raises CredentialError."""
        self._read()
        return list(self._keys)

    def newest(self) -> bytes:
        """Return the public key of its newest key; raises CredentialError."""
        self._read()
        from nacl.public import PrivateKey

        return bytes(PrivateKey(self._keys[self._last]).public_key)

    def open(self, sealed: bytes, key: str) -> bytes:
        """Open data that was sealed to the key with this name; raises CredentialError."""
        self._read()
        from nacl.exceptions import CryptoError
        from nacl.public import PrivateKey, SealedBox

        private = self._keys.get(key)
        if private is None:
            raise CredentialError(f"'{self.path}' does not have key {key}; copy the file that has it here")
        try:
            return bytes(SealedBox(PrivateKey(private)).decrypt(sealed))
        except CryptoError:
            raise CredentialError(f"data that was sealed to key {key} can't be opened with it") from None

    def add(self) -> str:
        """Make a key, append it to the file, which is made if necessary, and return the key's name.

        Raises CredentialError for a file that can't be read, and OSError.
        """
        # a lock, since two at a time would each lose the other's key: the second reads the first one's file
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            key = self._add()
            # before anything is sealed to it
            os.fsync(directory)
            return key
        finally:
            os.close(directory)

    def _add(self) -> str:
        from nacl.public import PrivateKey

        try:
            before = self._text()
            self._read()
        except FileNotFoundError:
            before = _HEADING
        if not before.endswith("\n"):
            # some editors leave out the last newline
            before += "\n"
        private = PrivateKey.generate()
        line = base64.b64encode(bytes(private)).decode() + "\n"
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(before + line)
                file.flush()
                os.fsync(file.fileno())
                if before != _HEADING:
                    # so that the agent's group may still read it
                    found = self.path.stat()
                    os.fchown(file.fileno(), found.st_uid, found.st_gid)
                    os.fchmod(file.fileno(), stat.S_IMODE(found.st_mode))
            beside.replace(self.path)
        except BaseException:
            beside.unlink()
            raise
        return key_id(bytes(private.public_key))

    def _text(self) -> str:
        with self.path.open(encoding="ascii") as file:
            return file.read(_MOST_BYTES)

    def _read(self) -> None:
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
            if seen == self._seen:
                return
            if found.st_mode & 0o007:
                raise CredentialError(f"'{self.path}' is open to every account; chmod o= it")
            keys = self._parse(self._text())
        except FileNotFoundError:
            raise CredentialError(f"there is no key file '{self.path}'") from None
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "it is no text"
            raise CredentialError(f"cannot read key file '{self.path}': {cause}") from None
        self._keys, self._last, self._seen = keys, next(reversed(keys)), seen

    def _parse(self, text: str) -> dict[str, bytes]:
        from nacl.public import PrivateKey

        keys: dict[str, bytes] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                private = base64.b64decode(line.strip(), validate=True)
            except binascii.Error:
                private = b""
            if len(private) != KEY_BYTES:
                # the message leaves out the line: it may have most of a key
                raise CredentialError(f"line {number} of key file '{self.path}' is not a key")
            keys[key_id(bytes(PrivateKey(private).public_key))] = private
        if not keys:
            raise CredentialError(f"there is no key in '{self.path}'")
        return keys
