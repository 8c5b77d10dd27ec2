"""The store of a job: the same in memory, at rank 0 and over a socket; closed to strangers, and bounded."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envcheck.checks.fleet_seat import CONNECTIONS_EACH
from envcheck.commands.bases import base
from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetFacts, FleetSeat
from envcheck.facts.record import replace
from envcheck.fleet import exchange, presence, store_client, telling, wire
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.stages import heard_of, links_of
from envcheck.fleet.store import MemoryStore, Store, StoreError, Value, get_large, put_large
from envcheck.fleet.store_client import StoreClient, StoreUnreachable
from envcheck.fleet.store_server import GONE, StoreServer
from envcheck.tables.folders import rules_folder

TOKEN = b"a job's token"


@pytest.fixture
def server() -> Iterator[StoreServer]:
    server = StoreServer(TOKEN)
    server.open((0,), "127.0.0.1")
    yield server
    server.close()


def client_of(server: StoreServer, token: bytes = TOKEN) -> StoreClient:
    return StoreClient("127.0.0.1", (server.port,), token, time.monotonic() + 60, many_hosts=False)


@pytest.fixture
def client(server: StoreServer) -> Iterator[StoreClient]:
    client = client_of(server)
    client.join(time.monotonic() + 30)
    yield client
    client.close()


@pytest.fixture(params=["memory", "rank 0", "socket"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return MemoryStore()
    named: Store = request.getfixturevalue("server" if request.param == "rank 0" else "client")
    return named


def test_what_was_set_is_there(store: Store) -> None:
    store.set("a", {"b": [1, None, "ü"]})
    store.set("seat/1", 1)
    store.set("seat/10", 10)
    assert store.get(["a", "nothing"]) == {"a": {"b": [1, None, "ü"]}}
    assert store.items("seat/") == {"seat/1": 1, "seat/10": 10}


def test_only_one_of_two_gets_a_rank(store: Store) -> None:
    assert store.compare_and_set("rank/3", None, "n1:7") == "n1:7"
    assert store.compare_and_set("rank/3", None, "n2:9") == "n1:7"
    assert store.compare_and_set("rank/3", "n1:7", "n2:9") == "n2:9"


def test_a_wait_ends_when_all_are_there_or_at_its_deadline(store: Store) -> None:
    store.set("a", 1)
    later = threading.Timer(0.2, store.set, ("b", 2))
    later.start()
    assert store.wait(["a", "b"], time.monotonic() + 30) == {"a": 1, "b": 2}
    began = time.monotonic()
    assert store.wait(["a", "never"], began + 0.2) == {"a": 1}
    assert time.monotonic() - began >= 0.2
    later.join()


def test_a_value_in_parts_is_whole_again(store: Store) -> None:
    facts = {"packages": [f"package-{number}" for number in range(60_000)]}
    put_large(store, "facts/n1", facts)
    assert get_large(store, "facts/n1") == facts
    assert get_large(store, "facts/n2") is None
    store.set("facts/n1", 99)
    assert get_large(store, "facts/n1") is None


@pytest.mark.parametrize("count", [10**12, -1, True, "2", None, [1]])
def test_a_rank_that_lies_about_its_parts_costs_nothing(count: object) -> None:
    store = MemoryStore()
    store.set("links/n1/0", "[" * 100_000)
    store.set("links/n1", count)
    assert get_large(store, "links/n1") is None


@pytest.mark.parametrize("said", [None, 5, True, "x", {"a": 1}, [1], [{}], [{"source": 1}], {"without": 3}, {"known": [[]]}, {"known": 7}])
def test_what_anybody_wrote_in_the_place_of_peers_and_links_is_none(said: object) -> None:
    assert links_of(said) == () and heard_of("links", FleetSeat("n1"), said) == ()
    assert heard_of("world", FleetSeat("n1"), said) in ((), (FleetSeat("n1"),))


def test_what_anybody_wrote_in_the_place_of_ranks_and_digests_is_none() -> None:
    server = StoreServer(TOKEN)
    for word in ("", "x", "-1", "²", "n9", "1e3", "9" * 5000):
        server.set(f"{presence.STAGE}{word}", "facts")
        server.set(f"{GONE}{word}", True)
    server.set(f"{presence.SEAT}0", encode(FleetSeat("n0", rank=0)))
    assert [one.host for one in presence.seats(server)[0]] == ["n0"]
    told: dict[str, Value] = {"n0": {"torch": [1], "state": "a"}, "n1": {"state": "b"}, "n2": {"trouble": 5}, "n3": ["x"]}
    for rank, (host, value) in enumerate(told.items()):
        server.set(f"{presence.LEADER}{host}", rank)
        server.set(f"{exchange.DIGEST}{host}", value)
    found = exchange.gather(server, time.monotonic())
    assert [kind.hosts for kind in found.kinds] == [("n1",)]
    assert found.troubles == {"n0": "what it told of itself are no digests", "n2": "5"}
    put_large(server, f"{exchange.FACTS}n1", encode(base(rules_folder(), "cpu")))
    server.set(f"{presence.LEADER}n1", "nobody")
    assert exchange.received(server, found, time.monotonic()).keys() <= {"n1"}
    facts = {"n1": dict(encode(base(rules_folder(), "cpu")))}
    assert telling.judged(FleetFacts(("n1",)), replace(found, facts=facts), FleetOptions()).exit_code in (0, 1, 3, 4)


def test_answers_over_the_limit_come_in_pages(server: StoreServer, client: StoreClient) -> None:
    values = {f"big/{number}": str(number) * 300_000 for number in range(9)}
    for key, value in values.items():
        client.set(key, value)
    assert client.items("big/") == values
    assert client.get([*values, "nothing"]) == values
    many = [f"small/{number}" for number in range(20_000)]
    for key in many:
        server.set(key, 1)
    assert client.get(many) == dict.fromkeys(many, 1) == client.items("small/")
    assert len(client.wait([*many, *values], time.monotonic() + 30)) == 20_009


def test_a_message_over_the_limit_is_refused_by_both_sides(server: StoreServer, client: StoreClient) -> None:
    with pytest.raises(StoreError, match="over the limit"):
        client.set("a", "x" * wire.MESSAGE_LIMIT)
    with pytest.raises(StoreError, match="over the limit"):
        client.set("a", "x" * (wire.MESSAGE_LIMIT - 200))  # a message, but too large to be answered
    with pytest.raises(StoreError, match="over the limit"):
        server.set("a", "x" * wire.MESSAGE_LIMIT)
    client.set("a", "x")
    assert client.get(["a"]) == {"a": "x"}


def raw(server: StoreServer, data: bytes) -> bytes:
    """What the server answers until it hangs up."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as one:
        try:
            one.sendall(data)
            answer = b""
            while part := one.recv(65536):
                answer += part
        except ConnectionError:
            return b""
    return answer


STRANGE = (
    b"GET / HTTP/1.1\r\n\r\n", b"\n", b"[]\n", b'{"op":"items","key":""}\n', b"x" * 5000, b'{"hello":7,"envcheck":1}\n', b"[" * 900 + b"\n",
)  # fmt: skip


@pytest.mark.parametrize("said", STRANGE)
def test_a_stranger_is_told_nothing(server: StoreServer, said: bytes) -> None:
    server.set("secret", 1)
    assert raw(server, said) == b""
    assert server.get(["secret"]) == {"secret": 1}


def test_a_stranger_with_another_token_is_turned_away(server: StoreServer) -> None:
    hello = json.dumps({"envcheck": wire.PROTOCOL, "hello": "mine"}).encode() + b"\n"
    answer = raw(server, hello + b'{"proof":"0123456789abcdef"}\n{"op":"items","key":""}\n').splitlines()
    assert [set(json.loads(line)) for line in answer] == [{"envcheck", "hello"}, {"ok", "error"}]
    with pytest.raises(StoreUnreachable, match="another job") as refused:
        client_of(server, b"another job's").join(time.monotonic() + 5, once=True)
    assert refused.value.reason == "stranger"


@settings(max_examples=50, deadline=None)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_whatever_a_member_asks_the_store_goes_on(said: object) -> None:
    server = StoreServer(TOKEN)
    server.open((0,), "127.0.0.1")
    client = client_of(server)
    try:
        client.join(time.monotonic() + 30)
        for op in ("set", "cas", "get", "items", "wait", "hold", said):
            question = {"op": op, "key": said, "keys": said, "seconds": said, "rank": said, "after": said}
            try:
                client._ask(question)
            except StoreError:
                pass
        client.set("alive", 1)
        assert client.get(["alive"]) == {"alive": 1}
    finally:
        client.close()
        server.close()


def test_a_server_that_is_no_store_is_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def serve() -> None:
            one, _ = listener.accept()
            with one:
                one.recv(100)
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(StoreUnreachable, match="no store of envcheck") as found:
            StoreClient("127.0.0.1", (port,), TOKEN, time.monotonic() + 30, many_hosts=False).join(time.monotonic() + 20, once=True)
        thread.join()
    assert found.value.reason == "stranger"


def test_one_that_takes_connections_and_says_nothing_may_be_frozen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, as the kernel of a frozen process does
        port = listener.getsockname()[1]
        with pytest.raises(StoreUnreachable) as silent:
            StoreClient("127.0.0.1", (port,), TOKEN, time.monotonic() + 30, many_hosts=False).join(time.monotonic() + 0.5, once=True)
    assert silent.value.reason == "silent"


def test_a_round_that_the_deadline_cuts_does_not_speak_for_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens; the last round ends in the middle, and a port that was not asked is no firewall's."""
    now, rounds = [0.0], ["refused", "refused", "filtered"]

    def found(_client: StoreClient, _first: int, deadline: float) -> None:
        reason = rounds.pop(0)
        now[0] = deadline if not rounds else now[0]
        raise StoreUnreachable("refused" if rounds else "filtered", reason)

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(StoreClient, "_found", found)
    monkeypatch.setattr(store_client, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with pytest.raises(StoreUnreachable, match=r"^refused$"):
        StoreClient("127.0.0.1", (1,), TOKEN, 30.0, many_hosts=False).join(10.0)
    assert not rounds


def test_the_reasons_of_what_cannot_be_joined() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    reasons = {}
    for name, many in (("127.0.0.1", False), ("localhost", True), ("no-such-host.invalid", True)):
        with pytest.raises(StoreUnreachable) as found:
            StoreClient(name, (port,), TOKEN, time.monotonic() + 30, many).join(time.monotonic() + 10, once=True)
        reasons[name] = found.value.reason
    assert reasons == {"127.0.0.1": "refused", "localhost": "loopback", "no-such-host.invalid": "name"}


def test_the_store_is_found_on_the_next_port_where_the_first_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        server = StoreServer(TOKEN)
        server.open((first, 0), "127.0.0.1")
        client = StoreClient("127.0.0.1", (first, server.port), TOKEN, time.monotonic() + 60)
        threading.Thread(target=lambda: taken.accept()[0].close(), daemon=True).start()
        client.join(time.monotonic() + 30)
        assert client.port == server.port
        client.close()
        server.close()


def test_one_that_ends_without_a_word_is_noticed(server: StoreServer) -> None:
    ended, polite = client_of(server), client_of(server)
    for rank, one in enumerate((ended, polite)):
        one.join(time.monotonic() + 30)
        one.hold(rank)
    polite.close()
    assert ended._held is not None
    ended._held.socket.close()
    assert list(server.wait([f"{GONE}0"], time.monotonic() + 30)) == [f"{GONE}0"]
    assert server.items(GONE).keys() == {f"{GONE}0"}


def test_a_connection_that_was_cut_is_opened_again(client: StoreClient) -> None:
    client.set("a", 1)
    client._idle[0].socket.shutdown(socket.SHUT_RDWR)
    assert client.get(["a"]) == {"a": 1}


def test_a_store_that_is_gone_is_told_as_lost(server: StoreServer, client: StoreClient) -> None:
    server.close()
    with pytest.raises(StoreUnreachable, match="is gone") as lost:
        client.wait(["a"], time.monotonic() + 30)
    assert lost.value.reason == "lost"


def test_the_clocks_difference_is_measured(client: StoreClient, monkeypatch: pytest.MonkeyPatch) -> None:
    here = client.clock()
    assert abs(here.seconds) <= here.error_seconds + 0.01
    real = time.time
    monkeypatch.setattr("envcheck.fleet.store_client.time", type("Clock", (), {"time": lambda: real() - 90, "monotonic": time.monotonic}))
    ahead = client.clock()
    assert abs(ahead.seconds + 90) <= ahead.error_seconds + 0.01


def test_a_rank_holds_as_many_connections_as_rank_0_reckons_with(server: StoreServer, client: StoreClient) -> None:
    client.hold(1)
    client.set("a", 1)
    later = threading.Timer(0.1, server.set, ("b", 2))
    later.start()
    assert client.wait(["b"], time.monotonic() + 30) == {"b": 2}
    client.clock()
    assert len(server.peers) == CONNECTIONS_EACH
    later.join()
