"""The stores of tests on ranks ask no name server: one that is slow would cost seconds a test."""

import sys
from pathlib import Path

from hosts import made_hosts

# One that hears all, and never answers.
SILENT = """
import socket

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    print(server.recv(512), flush=True)
"""
# torch's client asks for the name of the address that it connects to, too: here it does not.
CLIENT = """
import multiprocessing
from ddpcheck.launch.host import ask_no_name_server
from ddpcheck.launch.stores import TCPStore
from ddpcheck.testing.pool import _host_stores

ours, theirs = multiprocessing.Pipe()
host = multiprocessing.get_context("fork").Process(target=_host_stores, args=(theirs,))
host.start()
ask_no_name_server()
for number in range(3):
    ours.send("a new store")
    store = TCPStore("127.0.0.1", ours.recv(), is_master=False)
    store.set("key", str(number))
    assert store.get("key") == str(number).encode()
print("served")
host.terminate()
"""


def test_none_is_asked(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with made_hosts(1) as (host,), told.open("w") as file:
        (host.folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        server = host.start([sys.executable, "-c", SILENT], stdout=file)
        while "ready" not in told.read_text():
            assert server.poll() is None
        done = host.run([sys.executable, "-c", CLIENT], cwd=tmp_path)
        assert "served" in done.stdout, done.stderr
    assert told.read_text().splitlines() == ["ready"]
