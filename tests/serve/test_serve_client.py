"""The client: values as people write them, addresses, and each way an answer can fail."""

from __future__ import annotations

import hashlib
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_service import Answer, Asked, chunked, self_signed, served

from warren.serve.client import values
from warren.serve.client.address import Address, token_of
from warren.serve.client.client import Client, quoted
from warren.serve.client.errors import ServiceError
from warren.serve.client.submission import submission


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("4h", 14_400),
        ("1d12h", 129_600),
        ("1.5 h", 5400),
        ("90s", 90),
        ("2 min", 120),
    ],
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert values.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["10", "", "soon", "-4h", "4h x", "0s", "4hours", "9999999d", "1e3s"]
)
def test_a_time_without_a_unit_or_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 30m, 4h or 1d12h"):
        values.seconds(text)


def test_sizes_have_a_unit() -> None:
    assert values.size("16GB") == values.size("16 G") == 16 * 10**9
    assert values.size("512 MiB") == 512 * 2**20
    for wrong in ("16", "", "big", "0 GB", "-1GB"):
        with pytest.raises(ValueError, match="is no size; write it like 16GB or 512MiB"):
            values.size(wrong)


def test_arrays_sweeps_and_dependencies_are_read() -> None:
    assert values.span("1-10") == (1, 10)
    assert values.axis("lr=0.1,0.01") == ("lr", ("0.1", "0.01"))
    assert values.dependency("12") == {"job": "12", "when": "ok"}
    assert values.dependency("prep:any") == {"job": "prep", "when": "any"}
    assert values.dependency("a:b") == {"job": "a:b", "when": "ok"}
    assert values.setting("A=b=c") == ("A", "b=c")
    for read, wrong in (
        (values.span, "10-1"), (values.span, "5"), (values.span, "a-b"), (values.axis, "lr"),
        (values.axis, "lr=1,,2"), (values.axis, "lr=1,1"), (values.axis, "1r=1"),
        (values.dependency, ":any"), (values.dependency, " "), (values.setting, "=x"),
        (values.whole, "1.5"), (values.whole, "9" * 20), (values.positive, "0"),
        (values.counted, "-1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"; write|expected|at least|twice"):
            read(wrong)


def test_a_folder_that_is_named_means_the_socket_in_it(tmp_path: Path) -> None:
    assert Address(str(tmp_path)).path == f"{tmp_path}/socket"
    assert Address(f"{tmp_path}/other").path == f"{tmp_path}/other"
    assert Address("./a:1").path == "./a:1"


def test_a_service_elsewhere_is_named_by_host_and_port() -> None:
    pin = "AB:" * 31 + "cd"
    for text in ("gpu1:8443", "https:" + "//gpu1:8443/", f"gpu1:8443#sha256={pin}"):
        found = Address(text)
        assert (found.path, found.host, found.port, found.tls) == ("", "gpu1", 8443, True)
    assert found.pin == "ab" * 31 + "cd"
    assert not Address("http://localhost:80").tls


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp:" + "//a:1", "write HOST:PORT"),
        ("https:" + "//a", "write HOST:PORT"),
        ("https:" + "//a:1/path", "write HOST:PORT"),
        ("a:b", "write HOST:PORT"),
        ("http:" + "//gpu1:80", "a token would be readable on its way; leave out http:"),
        ("a:1#md5=00", "64 hex digits"),
        ("a:1#sha256=zz", "64 hex digits"),
    ],
)
def test_a_wrong_address_is_refused_with_the_right_form(text: str, said: str) -> None:
    with pytest.raises(ServiceError, match=said):
        Address(text)


def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WARREN_TOKEN", raising=False)
    (tmp_path / ".warren").mkdir()
    return tmp_path / ".warren" / "token"


def test_the_token_is_that_of_the_environment_else_of_a_file_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _home(tmp_path, monkeypatch)
    assert token_of() == ""
    file.touch(0o600)
    file.write_text("abc\n")
    assert token_of() == "abc"
    file.chmod(0o640)
    with pytest.raises(ServiceError, match="other accounts may read the token; run: chmod 600"):
        token_of()
    monkeypatch.setenv("WARREN_TOKEN", "xyz")
    assert token_of() == "xyz"


def test_nothing_that_listens_elsewhere_is_no_reason_to_start_a_service_here() -> None:
    with socket.create_server(("127.0.0.1", 0)) as end:
        port = end.getsockname()[1]
    with pytest.raises(ServiceError) as caught, Client(f"127.0.0.1:{port}") as client:
        client.queue()
    said = str(caught.value)
    assert said.startswith(f"no service at 127.0.0.1:{port}: nothing listens there")
    assert "it has ended" not in said


def test_no_token_goes_to_a_unix_socket_and_one_goes_to_tcp(tmp_path: Path) -> None:
    def answers(_: Asked) -> Answer:
        return 200, []

    for path in (tmp_path / "socket", None):
        with served(answers, path) as (server, service), Client(server, token="abc") as client:
            assert client.queue() == []
        (asked,) = service.asked
        assert asked.head.get("authorization") == (None if path else "Bearer abc")


def test_a_connection_serves_many_requests_and_is_made_again_after_its_end(tmp_path: Path) -> None:
    ends = [False, False, True, False]

    def answers(asked: Asked) -> Answer:
        body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
        return body if ends.pop(0) else (200, [])

    with served(answers, tmp_path / "socket") as (server, service), Client(server) as client:
        for _ in range(4):
            assert client.queue() == []
    assert len(service.asked) == 4


def test_a_question_on_a_connection_that_ends_just_then_is_asked_again_and_a_change_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
    # As if the end of the connection had not been seen yet.
    monkeypatch.setattr("select.select", lambda *_: ([], [], []))
    with (
        served(lambda _: whole, tmp_path / "socket") as (server, service),
        Client(server) as client,
    ):
        assert client.queue() == []
        assert client.queue() == []
        with pytest.raises(ServiceError, match="it may have been done"):
            client.cancel("1")
    assert [one.method for one in service.asked] == ["GET", "GET"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_one_line(tmp_path: Path, answer: bytes) -> None:
    with served(lambda _: answer, tmp_path / "socket") as (server, _), Client(server) as client:
        with pytest.raises(ServiceError, match=r"no answer \(") as raised:
            client.queue()
        assert raised.value.kind == "unreachable"
        assert "may have been done" not in str(raised.value)


def test_a_submission_without_an_answer_may_have_been_kept_and_is_not_repeated(
    tmp_path: Path,
) -> None:
    with served(lambda _: b"", tmp_path / "socket") as (server, service), Client(server) as client:
        with pytest.raises(ServiceError, match="it may have been done"):
            client.submit(["true"])
        assert len(service.asked) == 1


def test_an_answer_that_is_no_json_is_one_line(tmp_path: Path) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    with (
        served(lambda _: page, tmp_path / "socket") as (server, _),
        Client(server) as client,
        pytest.raises(ServiceError, match="no Warren service"),
    ):
        client.queue()


def test_a_refusal_has_the_words_and_the_kind_of_the_service(tmp_path: Path) -> None:
    def answers(_: Asked) -> Answer:
        return 404, {"error": "there is no job 7", "kind": "unknown"}

    with (
        served(answers, tmp_path / "socket") as (server, _),
        Client(server) as client,
        pytest.raises(ServiceError, match=r"^there is no job 7$") as raised,
    ):
        client.show("7")
    assert raised.value.kind == "unknown"


def test_python_submits_waits_and_reads_logs(tmp_path: Path) -> None:
    states = ["running", "finished"]

    def answers(asked: Asked) -> Answer:
        if asked.method == "POST":
            return 201, {"id": "3", "ids": ["3"]}
        if "/log" in asked.path:
            return chunked(b"hello ", b"world\n")
        return 200, {"id": "3", "state": states.pop(0)}

    with served(answers, tmp_path / "socket") as (server, service), Client(server) as client:
        job = client.submit(["train", "-x"], devices=2, time="4h", memory="1GB")
        assert client.wait(job)["state"] == "finished"
        assert b"".join(client.logs(job, follow=True)) == b"hello world\n"
        client.close()
    spec = service.asked[0].body["spec"]
    wanted = {
        "command": ["train", "-x"],
        "devices": 2,
        "time_limit_s": 14400,
        "memory_bytes": 10**9,
    }
    assert {name: spec[name] for name in wanted} == wanted
    assert spec["folder"] == str(Path.cwd())
    assert service.asked[-1].path == "/v1/jobs/3/log?follow=1"


def test_the_environment_goes_with_a_job_without_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARREN_TOKEN", "secret")
    monkeypatch.setenv("MINE", "1")
    spec = submission(["true"], folder="/tmp")["spec"]
    assert spec["environment"]["MINE"] == "1"
    assert "WARREN_TOKEN" not in spec["environment"]
    with pytest.raises(TypeError, match="unknown field 'gpu'; allowed: "):
        submission(["true"], gpu=1)
    with pytest.raises(ServiceError, match="there is no command"):
        submission([])


def test_ids_are_quoted_in_paths() -> None:
    assert quoted("12") == "12"
    assert quoted("a/b ?é") == "a%2Fb%20%3F%C3%A9"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of a service that no authority knows."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def _tls(certificate: tuple[Path, Path]) -> tuple[ssl.SSLContext, str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    der = ssl.PEM_cert_to_DER_cert(certificate[0].read_text())
    return context, hashlib.sha256(der).hexdigest()


def test_a_service_is_known_by_its_pinned_certificate(certificate: tuple[Path, Path]) -> None:
    context, pin = _tls(certificate)
    with served(lambda _: (200, []), tls=context) as (server, _):
        with Client(f"{server}#sha256={pin}", token="abc") as client:
            assert client.queue() == []
        other = "0" * 64
        with (
            Client(f"{server}#sha256={other}", token="abc") as client,
            pytest.raises(ServiceError, match=f"another certificate than the pinned one .*{pin}"),
        ):
            client.queue()
        with (
            Client(server, token="abc") as client,
            pytest.raises(ServiceError, match="known authority; pin it with #sha256=HEX"),
        ):
            client.queue()


def test_the_client_loads_nothing_heavy() -> None:
    heavy = ["typer", "rich", "msgspec", "http.client", "typing", "dataclasses", "ssl", "numpy"]
    code = (
        "import sys, warren.cli.service.submit, warren.cli.main, warren.store.signals; "
        "from warren.serve.client.client import Client; Client('x'); import socket, json;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True,
                          env={"PYTHONPATH": str(Path(values.__file__).parents[3])})  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
