from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import SAMPLES, finding, machine

from envcheck.cli import main
from envcheck.engine.judge import Outcome, Verdict
from envcheck.engine.rule import Evidence
from envcheck.facts.program_names import process_name
from envcheck.facts.record import replace
from envcheck.facts.secrets import is_secret_name, mask_secrets, mask_words
from envcheck.render import FORMATS, json_v1, render
from envcheck.report.redact import Identity, Redactor, identity, map_strings, redacted
from envcheck.report.report import Reported, finish

ALICE = Identity(
    frozenset({"alice"}), frozenset({"gpu-box-7", "gpu-box-7.corp.example"}), frozenset({"/data/users/alice"}), frozenset({"12.8.4.1"})
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/venv/bin/python", "~/venv/bin/python"),
        ("/Users/bob/x and /home/carol", "~/x and ~"),
        ("C:\\Users\\Bob Smith", "~ Smith"),
        ("/data/users/alice/env", "~/env"),
        ("/scratch/alice/env, alice@gpu-box-7.corp.example", "/scratch/[user]/env, [e-mail]"),
        ("malice", "malice"),
        ("GPU-00000000-1111-2222-3333-444444444444", "GPU-[uuid-1]"),
        ("MIG-GPU-00000000-1111-2222-3333-444444444444/1/0", "MIG-[uuid-1]"),
        ("id 00000000-1111-2222-3333-444444444444", "id [uuid-1]"),
        ("Serial Number                         : 1650523012345", "Serial Number                         : [serial]"),
        ("Board ID: 0x100", "Board ID: [serial]"),
        ("connect to 10.1.2.3:29500 from [fe80::1ff:fe23:4567:890a]", "connect to [ip-1]:29500 from [[ip-2]]"),
        ("10.1.2.3 10.1.2.4 10.1.2.3", "[ip-1] [ip-2] [ip-1]"),
        ("127.0.0.1 0.0.0.0 ::1", "127.0.0.1 0.0.0.0 ::1"),
        ("52:54:00:12:34:56", "[mac]"),
        ("nvidia-cublas-cu12==12.8.4.1 needs 12.8.4.1", "nvidia-cublas-cu12==12.8.4.1 needs 12.8.4.1"),
        ("nvidia-curand-cu12 10.3.9.90; cuDNN version 9.24.0.43", "nvidia-curand-cu12 10.3.9.90; cuDNN version 9.24.0.43"),
        ("driver 580.95.05, 535.183.01", "driver 580.95.05, 535.183.01"),
        ("PCI 00000000:01:00.0 at 12:34:56", "PCI 00000000:01:00.0 at 12:34:56"),
        ("undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string", None),
        ("libcudnn_engines_precompiled.so.9: cannot open", None),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz", "HF_TOKEN=[secret]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [secret]"),
        ("https://ann:pw@mirror.example/simple", "https://[secret]@mirror.example/simple"),
        ("key ghp_abcdefghijklmnopqrstuvwxyz0123", "key [secret]"),
        ("AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd", "[secret]"),
        ("0123456789abcdef0123456789abcdef", "[hex]"),
        ("TOKENIZERS_PARALLELISM=false", None),
        ("", None),
        ("580", None),
    ],
)
def test_text(text: str, expected: str | None) -> None:
    assert Redactor(ALICE)(text) == (text if expected is None else expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:pass@host/x", "https://[secret]@host/x"),
        ("https://host/a@b", "https://host/a@b"),
        ("git+ssh://git@github.com", "git+ssh://[secret]@github.com"),
        ("AKIAABCDEFGHIJKLMNOP", "[secret]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0.abc", "[secret]"),
        ("/opt/sk-learn-contrib-and-more/x", "/opt/sk-learn-contrib-and-more/x"),
        ("sk-proj-abcdef0123456789abcdef", "[secret]"),
        ("high", "high"),
        ("x\n--password Geheim12\n\t-token abc", "x\n--password [secret]\n\t-token [secret]"),
        ("Authorization: Bearer [secret]", "Authorization: Bearer [secret]"),
        (
            "password=Abc12345 DB_PWD=hunter33 MY_PASS=hunter22 SSH_KEY=abcdefg",
            "password=[secret] DB_PWD=[secret] MY_PASS=[secret] SSH_KEY=[secret]",
        ),
        ("python t.py --password Zecret --hf-token x --lr 1e-4", "python t.py --password [secret] --hf-token [secret] --lr 1e-4"),
        ("curl -H 'Authorization: Basic dXNlcjpw'", "curl -H 'Authorization: Basic [secret]'"),
        ('{"api_key": "abcd1234", "lr": 1}', '{"api_key": "[secret]", "lr": 1}'),
        ("https://a.example/c?sv=2022&sig=AbC%3D&se=1", "https://a.example/c?sv=2022&sig=[secret]&se=1"),
        ("https://b.example/x?X-Amz-Signature=0a1b2c&X-Amz-Date=1", "https://b.example/x?X-Amz-Signature=[secret]&X-Amz-Date=1"),
        ("ask ann.b@corp.example.com, or bo@c.io.", "ask [e-mail], or [e-mail]."),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nab==\n-----END RSA", "-----BEGIN RSA PRIVATE KEY-----[secret]-----END RSA"),
    ],
)
def test_mask_secrets(text: str, expected: str) -> None:
    assert mask_secrets(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve m --max-num-batched-tokens 8192 --max_tokens=2048 --tokenizer mistral pad_token_id: 50256 eos_token: </s>",
        "dispatch_key: CUDA, KeyError: 'lm_head.weight', PWD=/home BYPASS=12345",
        "symbol cublasLt@libcublasLt.so.12, version GLIBC_2.34, foo@libbar.so",
        "HF_TOKEN=$HF_TOKEN ssh ann@node7.corp.example.com:/x git@github.com:org/repo.git",
        "SyntaxError: unexpected token: '<'",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Words of a vocabulary, keys of a dispatcher, symbols of a library: a cause is read from them."""
    assert mask_secrets(text) == text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/opt/venv/bin/python train.py --api-key=abc", "python train.py"),
        ("python3 -u -m vllm.entrypoints.api --token x", "python3 -m vllm.entrypoints.api"),
        ("python -c password='x'", "python"),
        ("python3 - hunter2 --x", "python3"),
        ("python -mlis --u hunter2", "python -m lis"),
        ("/opt/app/run hunter2", "run"),
        (r"python3 run\x.py hunter2", r"python3 run\x.py"),
        (r"C:\Program Files\app.exe --key hunter2", r"C:\Program Files\app.exe"),
        ("[worker] hunter2", "[worker]"),
        ("Insufficient Permissions", "Insufficient Permissions"),
        ("ray::Worker.train()", "ray::Worker.train()"),
        ("[Insufficient Permissions]", "[Insufficient Permissions]"),
        (r"C:\Program Files -x\app.exe", r"C:\Program Files -x\app.exe"),
        (None, None),
    ],
)
def test_a_process_on_a_gpu_is_named_without_its_arguments(said: str | None, shown: str | None) -> None:
    assert process_name(said) == shown


def test_the_word_behind_a_flag_is_a_secret_whatever_it_is() -> None:
    assert list(mask_words(["t.py", "--password", "x", "--api-key=zzzzz", "--lr", "1"])) == [
        "t.py", "--password", "[secret]", "--api-key=[secret]", "--lr", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "DB_PWD",
        "MYAPP_PASS",
        "GH_PAT",
        "HF_TOKEN",
        "PIP_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "UV_INDEX_X_PASSWORD",
        "WANDB_API_KEY",
        "OPENAI_APIKEY",
        "KEY",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES", "NCCL_P2P_BYPASS", "KEYBOARD", "PYTORCH_CUDA_ALLOC_CONF"]
)
def test_names_that_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


def personal(extra: Mapping[str, Any] | None = None) -> Any:
    return machine(
        "rtx4090",
        {
            "network.hostname": "gpu-box-7.corp.example",
            "network.addresses": ["10.9.8.7"],
            "python.executable": "/home/alice/venv/bin/python",
            "python.variables": {"HF_TOKEN": "hf_secret_in_plain_sight", "LD_LIBRARY_PATH": "/home/alice/lib:/scratch/alice"},
            "torch.git_version": "0123456789abcdef0123456789abcdef01234567",
            **(extra or {}),
        },
    )


def test_identity_of_a_snapshot() -> None:
    found = identity(
        personal({"launcher": {"variables": {"SLURM_JOB_USER": "amartin", "SLURMD_NODENAME": "node17"}}}), ["login"], ["/data/login/"]
    )
    assert found.users == {"alice", "amartin", "login"}
    assert found.hosts == {"gpu-box-7.corp.example", "gpu-box-7", "node17"}
    assert found.homes == {"/data/login"} and "2.14.1+cu130" in found.versions


def test_common_names_are_left() -> None:
    found = identity(machine("cpu", {"python.executable": "/home/ubuntu/bin/python", "network.hostname": "localhost"}), ["root"])
    assert not found.users and not found.hosts


@pytest.mark.parametrize("form", FORMATS)
def test_report_for_an_issue_names_nobody(form: str) -> None:
    evidence = Evidence(
        "rank 0 (gpu-box-7)",
        "connect to 10.9.8.7:29500 failed for alice; File /home/alice/train.py; GPU-00000000-1111-2222-3333-444444444444",
    )
    one = Reported(finding("driver-too-old", message="alice on gpu-box-7 has /home/alice/.local", evidence=(evidence,)))
    report = finish(
        (one,), (Verdict("gpu-xid", Outcome.UNKNOWN, "/home/alice/x"),), personal(), assumed=("python.executable = /home/alice/p",)
    )
    shown = render(report, form, redact=None if form == "markdown" else True)
    for private in ("alice", "gpu-box-7", "corp.example", "10.9.8.7", "00000000-1111", "hf_secret"):
        assert private not in shown, private
    whole = form in ("json", "markdown", "html")  # the others hold no facts
    for kept in ("580.95.05", "2.14.1+cu130", "0123456789abcdef0123456789abcdef01234567", "9.24.0.43", "~/venv/bin/python"):
        assert kept in shown or not whole, kept
    assert "driver-too-old" in shown
    # the report itself is as it was
    assert report.snapshot == personal()


OF_A_JOB = {
    "MASTER_ADDR": "trainhost3.corp.x", "PET_RDZV_ENDPOINT": "meet9.corp.x:29400", "SLURM_JOB_NODELIST": "sugar[017-019],salt4",
    "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "8841234", "TORCHELASTIC_RUN_ID": "cure-of-zed",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_report_for_an_issue_names_no_job_and_none_of_its_hosts(form: str) -> None:
    evidence = Evidence(
        "environment",
        "SLURM_JOB_NAME=train SLURM_JOB_ID=8841234, rank 3 on sugar018: salt4.corp.x refused; cure-of-zed of sugar[017-019],salt4",
    )
    one = Reported(
        finding("driver-too-old", message="MASTER_ADDR is trainhost3.corp.x, MASTER_PORT 29511; ask sugar018", evidence=(evidence,))
    )
    launcher = {"launcher": {"master_addr": "trainhost3.corp.x", "variables": OF_A_JOB}}
    shown = render(finish((one,), (), personal(launcher)), form, redact=True)
    for private in ("trainhost3", "meet9", "sugar", "salt4", "8841234", "cure-of-zed", "SLURM_JOB_NAME=train"):
        assert private not in shown, private
    assert "MASTER" not in shown or "host-" in shown, "which host is which can still be read"


def test_a_pasted_message_names_its_host_to_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.log").write_text(
        "torch.distributed.DistNetworkError: The client socket has failed to connect to [trainhost3.corp.x]:29500\n"
    )
    main(["diagnose", str(tmp_path / "t.log"), "--format", "markdown"])
    shown = capsys.readouterr().out
    assert "trainhost3" not in shown and "corp.x" not in shown and "[host-1]" in shown


def test_equal_hosts_of_a_job_stay_equal() -> None:
    change = Redactor(identity(personal({"launcher": {"variables": OF_A_JOB}})))
    assert change("sugar017 to salt4, salt4 to sugar017, salt44") == "[host-1] to [host-2], [host-2] to [host-1], salt44"
    assert change("trainhost3, trainhost3.corp.x") == "[host-3], [host-3]"
    assert change("at sugar[017-019],salt4") == "at [hosts]"


@pytest.mark.parametrize("written", ["n[1-9999999999]", "a[b", "n[1-2", ""])
def test_a_list_of_hosts_that_is_none_is_gone_as_it_stands(written: str) -> None:
    change = Redactor(identity(personal({"launcher": {"variables": {"SLURM_NODELIST": written}}})))
    assert change(f"on {written}.") == ("on [hosts]." if written else "on .")


def test_host_name_is_gone_however_short() -> None:
    clean = redacted(finish((), (), machine("cpu", {"network.hostname": "vm"})))
    assert clean.snapshot.network.hostname == "[host]"  # type: ignore[union-attr]


def test_two_gpus_remain_two() -> None:
    clean = redacted(SAMPLES["h100x8"]())
    assert len({gpu.uuid for gpu in clean.snapshot.gpus.devices}) == 8  # type: ignore[union-attr]
    assert clean.snapshot.gpus.devices[0].uuid == clean.snapshot.devices.devices[0].uuid  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SAMPLES)
def test_redacted_report_is_still_a_report(name: str) -> None:
    clean = redacted(SAMPLES[name]())
    assert json_v1.render(clean)
    assert clean.verdict == SAMPLES[name]().verdict


def test_nothing_to_hide_is_the_same_object() -> None:
    report = replace(SAMPLES["cpu"]())
    assert map_strings(report, lambda text: text) is report


@given(st.text())
def test_never_raises(text: str) -> None:
    assert isinstance(Redactor(ALICE)(text), str)
    assert isinstance(mask_secrets(text), str)


def test_the_host_that_a_log_is_read_on_is_left_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log's machine is unknown, and often this one."""
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename="trainhost9.corp.x"))
    (tmp_path / "own.log").write_text("OSError: libcudart.so.12: cannot open shared object file on trainhost9 (trainhost9.corp.x)")
    assert main(["diagnose", str(tmp_path / "own.log"), "-v", "--format", "markdown"]) == 1
    said = capsys.readouterr().out
    assert "on [host] ([host])" in said and "trainhost9" not in said
