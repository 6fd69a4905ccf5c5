"""How processes meet before XLA's service starts: threads stand for them, since nothing of XLA is there yet."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from effx.distributed.launch import free_port
from effx.distributed.watch import Watch, gather, join, parse_address
from effx.errors import DistributedError

HOST = "127.0.0.1"


def meet(*processes: tuple[int, int], timeout: float = 5) -> list[str]:
    """Lets processes, each with a number and a count, meet, and returns what becomes of them."""
    address = (HOST, free_port())

    def one(process_id: int, count: int) -> str:
        try:
            watch = (
                gather(address, count, timeout).release(HOST)
                if process_id == 0
                else join(address, process_id, count, timeout)
            )
        except DistributedError as error:
            return error.message.replace(str(address[1]), "PORT")
        watch.start(lambda coordinator: None)
        try:
            watch.finish(5)
        finally:
            watch.close()
        return f"{watch.process_id} of {watch.num_processes} at {watch.host}"

    with ThreadPoolExecutor(len(processes)) as pool:
        return [f.result() for f in [pool.submit(one, *process) for process in processes]]


def test_processes_meet() -> None:
    """In any order, and all end together."""
    assert meet((2, 3), (0, 3), (1, 3)) == [f"{k} of 3 at {HOST}" for k in (2, 0, 1)]
    assert meet((0, 1)) == [f"0 of 1 at {HOST}"]


FAULTS = {
    "count": (((0, 2), (1, 3)), ["process 1 expects num_processes 3, process 0 expects 2"] * 2),
    "equal": (((0, 3), (1, 3), (1, 3)), ["two processes have process_id 1"] * 3),
    "missing": (((0, 4), (1, 4)), ["processes 2, 3 of 4 did not come within 1 s"] * 2),
    "no coordinator": (
        ((1, 2),),
        ["the coordinator at 127.0.0.1:PORT could not be reached within 1 s: Connection refused"],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_processes_that_do_not_fit(name: str) -> None:
    """The error is the same in all of them."""
    processes, texts = FAULTS[name]
    assert meet(*processes, timeout=1) == [f"distributed.initialize: {text}" for text in texts]


def test_port_in_use() -> None:
    """By another program, or by a process of the same number."""
    with socket.create_server((HOST, 0)) as other:
        address = other.getsockname()
        with pytest.raises(DistributedError) as caught:
            gather(address, 2, 1)
    assert caught.value.message == (
        f"distributed.initialize: process 0 cannot listen at {HOST}:{address[1]}: the port is in use, by another program or "
        f"another process with process_id 0"
    )


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"[1, 2]\n"])
def test_another_program_at_the_port(says: bytes) -> None:
    """A program that is none of effx is told from a coordinator."""

    def answer(other: socket.socket) -> None:
        link, _ = other.accept()
        with link:
            link.recv(1)
            link.sendall(says)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1 << 10):
                pass

    with socket.create_server((HOST, 0)) as other, ThreadPoolExecutor(1) as pool:
        done = pool.submit(answer, other)
        with pytest.raises(DistributedError) as caught:
            join(other.getsockname(), 1, 2, 5)
        done.result()
    assert caught.value.message == (
        f"distributed.initialize: the coordinator at {HOST}:{other_port(caught.value)} has ended, has begun without "
        f"process 1, or is no process of effx"
    )


def other_port(error: DistributedError) -> str:
    return error.message.partition(f"{HOST}:")[2].partition(" ")[0]


def test_strangers_at_the_coordinator() -> None:
    """Whoever connects and is no process of effx is let go, and the processes meet."""
    address = (HOST, free_port())

    def disturb() -> None:
        for text in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"process_id": "1"}\n'):
            link = reach(address)
            link.sendall(text)
            link.close()

    with ThreadPoolExecutor(2) as pool:
        gathering = pool.submit(lambda: gather(address, 2, 5).release(HOST))
        pool.submit(disturb).result()
        other = pool.submit(join, address, 1, 2, 5)
        watches = [gathering.result(), other.result()]
    assert [watch.process_id for watch in watches] == [0, 1]
    for watch in watches:
        watch.close()


def reach(address: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=5)
        except ConnectionRefusedError:
            continue


def pair(told: Callable[[bool], object]) -> tuple[Watch, Watch]:
    address = (HOST, free_port())
    with ThreadPoolExecutor(1) as pool:
        gathering = pool.submit(lambda: gather(address, 2, 5).release(HOST))
        other = join(address, 1, 2, 5)
        first = gathering.result()
    first.start(told)
    return first, other


def test_what_is_heard_of_a_failure() -> None:
    """A process's own words, and the end of its connection where it says none; told once."""
    told: list[bool] = []
    first, other = pair(told.append)
    other.fail("process 1 of 2 failed: ValueError: no")
    other.close()
    assert first.failure_within(5) == "process 1 of 2 failed: ValueError: no"
    assert first.left.wait(5)
    with pytest.raises(DistributedError) as caught:
        first.finish(5)
    assert caught.value.message == "distributed.shutdown: process 1 of 2 failed: ValueError: no"
    first.close()
    assert told == [False]

    first, other = pair(told.append)
    other.close()
    assert first.failure_within(5) == "process 1 of 2 is gone: it was ended from outside, or its machine was"
    first.close()


def test_ends_that_are_not_reached() -> None:
    """The error names who has not come to the end."""
    first, other = pair(lambda coordinator: None)
    with pytest.raises(DistributedError) as caught:
        first.finish(0.1)
    assert caught.value.message == "distributed.shutdown: process 1 of 2 did not end within 0.1 s"
    first.close()
    other.close()


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:a", "host:0", "host:65536", "host:-1"])
def test_malformed_addresses(text: str) -> None:
    """An address has a host and a port."""
    with pytest.raises(DistributedError) as caught:
        parse_address("coordinator_address", text)
    assert caught.value.message == (
        f"distributed.initialize: coordinator_address must be host:port, got {text!r}"
    )
