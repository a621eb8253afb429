"""Joining a Ray cluster, or starting one here."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

import ray

from rollmill.engine import default_threads

#: Seconds within which an address has to answer.
CONNECT_SECONDS = 5.0
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


def connect(address: str | None, num_workers: int) -> bool:
    """Join the cluster at an address.

    Parameters
    ----------
    address : str or None
        "local" starts Ray on this machine; "auto" finds one that runs here; "host:port" and
        "ray://host:port" join one. None is RAY_ADDRESS, or else "local". A Ray that this process
        has joined already is used; only another "host:port" contradicts it.
    num_workers : int
        A Ray that is started here offers at least so many slots.

    Returns
    -------
    bool
        Whether Ray was started or joined here, so that `ray.shutdown` is ours to call.

    Raises
    ------
    ConnectionError
        If nothing answers there.
    ValueError
        If the address is none, or contradicts the cluster that this process has joined.
    """
    if ray.is_initialized():
        _check_same(address)
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        _start(num_workers)
        return True
    if address != "auto":
        _check_answers(address)
    try:
        ray.init(address=address, logging_level=logging.WARNING)
    except ConnectionError as error:
        text = f"{error} {error.__cause__ or ''}"
        if "RAY_AUTH_TOKEN" in text or "uthenticat" in text:
            raise ConnectionError(
                f"the Ray cluster at {address} asks for a token: set RAY_AUTH_MODE=token and "
                f"RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
            ) from error
        if address == "auto":
            raise ConnectionError(
                'no Ray cluster runs on this machine: address "auto" finds only one that '
                '`ray start` made; "local" starts one'
            ) from error
        why = str(error).partition("\n")[0]
        raise ConnectionError(f"Ray at {address} cannot be joined: {why}") from error
    return True


def _start(num_workers: int) -> None:
    if "RAY_AUTH_MODE" not in os.environ and not _home_is_writable():
        # Ray would write a token below HOME; with one in the environment it need not.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray.init(
        address="local",
        num_cpus=max(num_workers, default_threads()),
        include_dashboard=False,
        logging_level=logging.WARNING,
    )


def _home_is_writable() -> bool:
    try:
        folder = Path.home() / ".ray"
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except (OSError, RuntimeError):
        return False


def _check_same(address: str | None) -> None:
    """Refuse "host:port" if this process has joined a cluster elsewhere."""
    if address in (None, "local", "auto"):
        return
    here = ray.get_runtime_context().gcs_address
    if address.startswith("ray://") or _endpoint(address) != _endpoint(here):
        raise ValueError(
            f"address {address!r} contradicts the Ray cluster at {here} that this process has "
            f"joined: leave the address out, or call ray.shutdown() first"
        )


def _endpoint(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    with suppress(OSError):
        host = socket.gethostbyname(host)
    if host.startswith("127."):
        host = ray.util.get_node_ip_address()
    return host, int(port) if port.isdigit() else -1


def _check_answers(address: str) -> None:
    """Raise ConnectionError unless a gRPC server answers; Ray itself waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(
            f'address must be "local", "auto", "host:port" or "ray://host:port", got {address!r}'
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as line:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return
            line.settimeout(CONNECT_SECONDS)
            line.sendall(_HTTP2)
            frame = b""
            while len(frame) < 9 and (more := line.recv(9 - len(frame))):
                frame += more
    except OSError as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address}: {error.strerror or error}"
        ) from error
    if len(frame) < 9 or frame[3] != 4:  # a SETTINGS frame opens HTTP/2
        raise ConnectionError(f"what answers at {address} is not a Ray cluster")
