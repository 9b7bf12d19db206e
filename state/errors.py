"""The errors of `state`: text or a file that is not what it should be."""


class StateError(Exception):
    """Something that was read is not what it claims to be. The message names the thing and the cure."""


class CPUSetError(StateError):
    """A CPU list that cannot be read, or a CPU number out of range."""


class CheckpointCorrupt(StateError):
    """A checkpoint whose checksum or shape is wrong. Set it aside; never overwrite it silently."""


class CheckpointTooNew(StateError):
    """A checkpoint written by a later version. Leave it alone and update the program."""


class ProjectionError(StateError):
    """A projection directory or file that cannot be read or written safely; each argument is a sentence about one."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class ProjectionMissing(ProjectionError):
    """There is no projection: not yet, or not any more."""


class FileUnreadable(StateError):
    """An existing file or directory cannot be read, or is not what it should be: a link, a pipe, too long."""


class FileUnwritable(StateError):
    """A file or directory cannot be written: full, read-only, not ours. The old content stands."""
