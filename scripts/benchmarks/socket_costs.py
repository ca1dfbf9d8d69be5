"""What the system calls of a broker cost alone: the floor of `serve-in-cpu` and `serve-out-cpu`.

    python socket_costs.py in FILE BYTES       receive pieces of 1 MiB, compute CRC-32C, write them to FILE
    python socket_costs.py out FILE BYTES      answer requests of 60 bytes with pieces of 1 MiB of FILE, by sendfile

The client is a process of its own, which makes nothing of what it gets. Prints the CPU seconds of the server.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time

import crc32c

PIECE_BYTES = 1 << 20
REQUEST = bytes(60)


def main(direction: str, path: str, size: int) -> None:
    pieces = size // PIECE_BYTES
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = multiprocessing.Process(target=_CLIENTS[direction], args=(listener.getsockname(), pieces))
        client.start()
        peer, _ = listener.accept()
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            before = time.process_time()
            _SERVERS[direction](peer, path, pieces)
            print(time.process_time() - before)
        client.join()


def _receive(peer: socket.socket, path: str, pieces: int) -> None:
    buffer = bytearray(PIECE_BYTES)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number in range(pieces):
        _fill(peer, buffer)
        crc32c.crc32c(buffer)
        assert os.pwrite(file, buffer, number * PIECE_BYTES) == PIECE_BYTES
    os.close(file)


def _send(peer: socket.socket, path: str, pieces: int) -> None:
    request = bytearray(len(REQUEST))
    file = os.open(path, os.O_RDONLY)
    size = os.fstat(file).st_size // PIECE_BYTES * PIECE_BYTES
    for number in range(pieces):
        _fill(peer, request)
        position, end = number * PIECE_BYTES % size, (number * PIECE_BYTES % size) + PIECE_BYTES
        while position < end:
            position += os.sendfile(peer.fileno(), file, position, end - position)
    os.close(file)


def _send_pieces(address: tuple[str, int], pieces: int) -> None:
    data = os.urandom(PIECE_BYTES)
    with socket.create_connection(address) as server:
        for _ in range(pieces):
            server.sendall(data)


def _ask_for_pieces(address: tuple[str, int], pieces: int) -> None:
    buffer = bytearray(PIECE_BYTES)
    with socket.create_connection(address) as server:
        for _ in range(pieces):
            server.sendall(REQUEST)
            _fill(server, buffer)


def _fill(peer: socket.socket, buffer: bytearray) -> None:
    done = 0
    with memoryview(buffer) as view:
        while done < len(buffer):
            count = peer.recv_into(view[done:])
            if not count:
                raise EOFError("the other side has ended")
            done += count


_SERVERS = {"in": _receive, "out": _send}
_CLIENTS = {"in": _send_pieces, "out": _ask_for_pieces}

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
