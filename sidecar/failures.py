"""Everything the daemon can fail at, named by what the caller can do about it.

Foreign exceptions (aiohttp, aiodocker, OSError) stop at the adapter and become one of these, `raise ... from`.
"""


class SidecarError(Exception):
    """The root of all errors; the message is a sentence for people, naming the cure if there is one."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences of the message, to be printed one by one; a ConfigError and a Misuse may have several."""
        return (str(self),)


class ConfigError(SidecarError):
    """A configuration that cannot be used. Each argument is a sentence about one mistake: the file and key, the
    variable or the flag, and what would be right.
    """

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each mistake."""
        return tuple(map(str, self.args))


class Misuse(SidecarError):
    """Arguments of a command that cannot be used together. Each argument is a sentence about one contradiction."""

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each contradiction."""
        return tuple(map(str, self.args))


class OutputUnwritable(SidecarError):
    """What a command prints cannot be written: stdout is closed, or its device is full."""


class AlreadyRunning(SidecarError):
    """Another sidecar holds the lock on this state directory."""


class StateUnwritable(SidecarError):
    """The state directory cannot be written: full, read-only, or not ours."""


class EngineError(SidecarError):
    """The container engine did not do what was asked."""


class EngineUnavailable(EngineError):
    """No answer: not there, gone, too slow. Whether the request took effect is unknown. Try again later."""


class EngineSilent(EngineUnavailable):
    """No answer within the time limit: the engine hangs, or this one request does."""


class EngineRefused(EngineError):
    """The engine reports that the request is wrong (400, 409): do not repeat it as it is."""


class EngineFailed(EngineError):
    """The engine tried and failed (5xx): its records may be wrong now. Look again before the next order."""


class ContainerGone(EngineError):
    """No such container any more. Forget it."""


class EngineLacks(EngineError):
    """This engine cannot do it at all (no such route, no cpuset controller): a matter of configuration."""


class CgroupError(SidecarError):
    """A container's cgroup was not written."""


class CgroupGone(CgroupError):
    """The container has no cgroup (any more)."""


class CgroupClosed(CgroupError):
    """The cgroup is there, but cannot be written: permission, a read-only mount, a set outside its parent's."""
