"""Signals: SIGHUP reloads the configuration, SIGTERM and SIGINT stop the daemon. While it starts, a SIGHUP is pending.

Settings of the policy change at once; paths and the engine's address only after a restart.
"""

from __future__ import annotations

import os
import signal

import msgspec
import trio

from sidecar.board import Board
from sidecar.config.config import Config, load_again
from sidecar.config.running_settings import after_reload, changed_in_vain, new_doubts, write_settings
from sidecar.crashes import Crashes
from sidecar.decide.container.wish import label_keys
from sidecar.decide.facts import Fact, SettingsChanged, TopologyRead
from sidecar.failures import SidecarError
from sidecar.host_ports import Kernel
from sidecar.log import Log
from state.codec import to_builtins
from state.errors import StateError


def record(config: Config, log: Log) -> None:
    """Keep the settings for the commands that answer for this daemon; they manage without."""
    try:
        write_settings(config.state_dir, config)
    except StateError as error:
        log.warning("the settings cannot be recorded for other commands", reason=error)


class Reloading:
    """Hears the signals of one daemon, which began with this configuration; `stop` ends it."""

    def __init__(self, board: Board, config: Config, kernel: Kernel, *, stop: trio.Event, log: Log) -> None:
        self._crashes = Crashes(board, log)
        self._config = config
        self._kernel = kernel
        self._stop = stop
        self._log = log

    async def run(self, outbox: trio.MemorySendChannel[Fact]) -> None:
        """Hear signals until cancelled."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            async for number in signals:
                if number != signal.SIGHUP:
                    self._stop.set()
                    continue
                # Without this task a signal would end the daemon as it ends any program.
                with self._crashes.contained(None, "reload"):
                    await self._read_configuration(outbox)

    async def _read_configuration(self, outbox: trio.MemorySendChannel[Fact]) -> None:
        """Reload the configuration. The machine is read again, too: there may be new devices.

        A configuration with mistakes changes nothing, and is reported.
        """
        try:
            topology = await trio.to_thread.run_sync(self._kernel.topology)
            config = load_again(self._config, os.environ, topology)
        except (SidecarError, StateError) as error:
            for reason in error.sentences if isinstance(error, SidecarError) else (str(error),):
                self._log.error("the running configuration stays in force", reason=reason)
            return
        for key in changed_in_vain(config, self._config):
            self._log.warning(f"{key} takes effect only after a restart")
        if label_keys(config.unmanaged) - label_keys(self._config.unmanaged):
            self._log.warning("labels added to unmanaged take effect only after a restart")
        self._log.info("configuration reloaded", policy=config.policy)
        for warning in new_doubts(self._config, config, topology):
            self._log.warning(warning)
        await outbox.send(TopologyRead(topology))
        record(after_reload(config, self._config), self._log)
        settings = msgspec.structs.replace(config.settings(), shared_slice=self._config.shared_slice)
        await outbox.send(SettingsChanged(to_builtins(settings)))
