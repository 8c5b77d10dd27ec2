"""Commands as lists of their words: what the line hides is hidden in every way to write the list, and nothing else is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from envcheck.facts.secrets import mask_secrets, mask_values, mask_words
from envcheck.render.json_v1 import json_text

COMMANDS = [
    ("sshpass -p X ssh a@b", "sshpass -p [secret] ssh a@b"),
    ("mysql -uroot -pX exp", "mysql -uroot -p[secret] exp"),
    ("curl -u root:X https://b/redfish", "curl -u root:[secret] https://b/redfish"),
    ("docker login -u alice -p X ghcr.io", "docker login -u alice -p [secret] ghcr.io"),
    ("redis-cli -h r -a X ping", "redis-cli -h r -a [secret] ping"),
    ("mongosh -u ml -p X db", "mongosh -u ml -p [secret] db"),
    ("ldapsearch -x -D cn=admin -w X", "ldapsearch -x -D cn=admin -w [secret]"),
    ("unzip -P X d.zip", "unzip -P [secret] d.zip"),
    ("7z x -pX d.7z", "7z x -p[secret] d.7z"),
    ("openssl enc -d -k X -in d", "openssl enc -d -k [secret] -in d"),
    ("ipmitool -U admin -P X power status", "ipmitool -U admin -P [secret] power status"),
    ("smbclient -U alice%X //nas/d", "smbclient -U alice%[secret] //nas/d"),
    ("skopeo copy --src-creds alice:X docker://x dir:y", "skopeo copy --src-creds alice:[secret] docker://x dir:y"),
    ("mc alias set m http://h:9000 admin X", "mc alias set m http://h:9000 admin [secret]"),
    ("htpasswd -b -c f alice X", "htpasswd -b -c f alice [secret]"),
    ("aws configure set aws_secret_access_key X", "aws configure set aws_secret_access_key [secret]"),
    ("git config user.password X", "git config user.password [secret]"),
    ("dvc remote modify --local o password X", "dvc remote modify --local o password [secret]"),
    ("vastai set api-key X", "vastai set api-key [secret]"),
    ("ossutil config -i AK -k X", "ossutil config -i AK -k [secret]"),
    ("rclone config create r s3 secret_access_key X", "rclone config create r s3 secret_access_key [secret]"),
    (
        "torchrun --nproc-per-node 8 --rdzv-id 77abc123 t.py --tokenizer X",
        "torchrun --nproc-per-node 8 --rdzv-id 77abc123 t.py --tokenizer X",
    ),
]
WAYS = {
    "repr": lambda words: f"CalledProcessError: Command '{words}' returned non-zero exit status 255.",
    "tuple": lambda words: repr(tuple(words)),
    "json": lambda words: '"Cmd": ' + json.dumps(words),
    "without blanks": lambda words: json.dumps(words, separators=(",", ":")),
    "lines": lambda words: '"Cmd": ' + json.dumps(words, indent=4),
    "json in json": lambda words: json.dumps({"x": json.dumps(words)}),
    "in a list": lambda words: json.dumps([f"Command '{words}' failed", "x"]),
    "dockerfile": lambda words: "CMD " + json.dumps(words),
    "strace": lambda words: f'execve("/usr/bin/{words[0]}", {json.dumps(words)}, 0x7ffe /* 30 vars */) = 0',
    "debug of rust": lambda words: " ".join(map(json.dumps, words)),
    "yaml": lambda words: "command:\n" + "".join(f"    - {word}\n" for word in words) + "image: x",
    "yaml in quotes": lambda words: "command:\n" + "".join(f"- {json.dumps(word)}\n" for word in words) + "image: x",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command.split()[0] for command, _ in COMMANDS])
def test_a_list_hides_what_its_line_hides(command: str, shown: str, way: str) -> None:
    words = command.replace("X", "calvinX1").split()
    assert mask_secrets(" ".join(words)) == shown.replace("X", "calvinX1")
    hidden = mask_secrets(WAYS[way](words))
    assert hidden == WAYS[way](shown.replace("X", "calvinX1").split())
    assert mask_secrets(hidden) == hidden


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command.split()[0] for command, _ in COMMANDS])
def test_words_hide_what_their_line_hides(command: str, shown: str) -> None:
    words, hidden = command.replace("X", "calvinX1").split(), shown.replace("X", "calvinX1").split()
    assert list(mask_words(words)) == hidden
    assert mask_values({"argv": words}) == {"argv": hidden}


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sshpass", "-p", "a b'c|d", "ssh"], ["sshpass", "-p", "[secret]", "ssh"]),
        (["mysql", "-pmy pass;word", "x"], ["mysql", "-p[secret]", "x"]),
        (["curl", "-u", "root:two words", "x"], ["curl", "-u", "root:[secret]", "x"]),
        (["curl", "-H", "Authorization: Bearer abcd1234efgh", "x"], ["curl", "-H", "Authorization: Bearer [secret]", "x"]),
        (["bash", "-c", "export HF_TOKEN=abcd1234efgh; python"], ["bash", "-c", "export HF_TOKEN=[secret]; python"]),
        (["t.py", "--password", "", "--lr", "1"], ["t.py", "--password", "", "--lr", "1"]),
        (["env", "HF_TOKEN=", "NVIDIA_VISIBLE_DEVICES=all", "python"], ["env", "HF_TOKEN=", "NVIDIA_VISIBLE_DEVICES=all", "python"]),
        (["wandb", "login", "0123456789abcdef" * 2 + "01234567"], ["wandb", "login", "[secret]"]),
    ],
)
def test_a_word_of_blanks_and_signs_is_one_word(words: list[str], shown: list[str]) -> None:
    assert list(mask_words(words)) == shown


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Command '['sshpass', '-p', 'Blauw!ve", "Command '['sshpass', '-p', '[secret]"),  # cut off
        ("(PosixPath('/usr/bin/mysql'), '-pcalvinX1')", "(PosixPath('/usr/bin/mysql'), '-p[secret]')"),
        ("[b'mysql', b'-pcalvinX1']", "[b'mysql', b'-p[secret]']"),
        ("['mysql', '-p', 12345678, 'db']", "['mysql', '-p', [secret], 'db']"),
        ("[&#39;mysql&#39;, &#39;-pcalvinX1&#39;]", "['mysql', '-p[secret]']"),
        ("api_key=&#x27;token-abc981xyz&#x27;", "api_key='[secret]'"),
        ("&quot;key&quot;:&quot;" + "0123456789abcdef" * 2 + "&quot;", '"key":"[secret]"'),
        (json.dumps("密码：blueOtter77"), '"密码：[secret]"'),
        ('"\\\\u202e password=Hunter22x"', '"\\\\u202e password=[secret]"'),  # what turns a line around stays spelled out
        (json.dumps("密码 loss"), json.dumps("密码 loss")),
        ("&quot;loss&quot;: &quot;1.5&quot;", "&quot;loss&quot;: &quot;1.5&quot;"),
        ('{"user": "login", "image": "calvinX1"}', '{"user": "login", "image": "calvinX1"}'),
        ("['unexpected token: x', 'retry-in-5s']", "['unexpected token: x', 'retry-in-5s']"),
        ("- numpy\n- torch\n- token\n", "- numpy\n- torch\n- token\n"),
    ],
)
def test_lists_as_programs_write_them(said: str, shown: str) -> None:
    assert mask_secrets(said) == shown


@pytest.mark.parametrize("part", ["'-p', ", '"a" ', "[", "'", "\\'x", '\\"', "- a\n", "'a\\", "('", 'f("b", 1, ', "'\"'\", "])
def test_sixteen_times_the_list_takes_no_square_of_the_time(part: str) -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        mask_secrets(part * count)
        return time.process_time() - begin

    seconds(10)  # what is compiled once
    assert seconds(16000) < 40 * max(min(seconds(1000) for _ in range(3)), 0.002)


BLOCKS = [
    ("apiVersion: v1\nkind: Secret\ndata:\n  wandb: dmVsdmV0NzdPdHRlcg", "apiVersion: v1\nkind: Secret\ndata:\n  wandb: [secret]"),
    ("docker login \\\n  -u alice \\\n  -p velvet77Otter \\\n  ghcr.io", "docker login \\\n  -u alice \\\n  -p [secret] \\\n  ghcr.io"),
    ("command:\n  - mysql\n  - -pvelvet77Otter\n  - x", "command:\n  - mysql\n  - -p[secret]\n  - x"),
    ("['mysql',\n '-pvelvet77Otter']", "['mysql',\n '-p[secret]']"),
    ("epoch 1\nloss 2.3\nstep 7", "epoch 1\nloss 2.3\nstep 7"),
]
LABELS = ["trainer_1  | ", "2026-11-30T12:00:0@.123456789Z stdout F ", "[1,0]<stdout>:", "[1,0]<stdout>: ", "3: "]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("block", "shown"), BLOCKS, ids=["manifest", "line that goes on", "items", "list", "none"])
def test_what_stands_before_each_line_parts_no_name_from_its_value(block: str, shown: str, label: str) -> None:
    def labelled(text: str) -> str:
        return "\n".join(label.replace("@", str(at)) + line for at, line in enumerate(text.split("\n")))

    assert mask_secrets(labelled(block)) == labelled(shown)


def test_lines_of_other_ranks_between_part_none() -> None:
    said = "[1,0]<stdout>:- name: REDIS_PASSWORD\n[1,1]<stdout>:epoch 1\n[1,0]<stdout>:  value: velvet77Otter\n[1,1]<stdout>:epoch 2"
    assert "[1,0]<stdout>:  value: [secret]\n[1,1]<stdout>:epoch 2" in mask_secrets(said)


def test_a_key_below_labels_leaves_as_many_lines() -> None:
    key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIAbCdEf1234567890\nAAAAMwAAAAtzc2gtZWQy\n-----END EC PRIVATE KEY-----\nrest"
    shown = mask_secrets("".join(f"3: {line}\n" for line in key.split("\n")))
    assert shown == "3: -----BEGIN EC PRIVATE KEY-----[secret]-----END EC PRIVATE KEY-----\n3: rest\n3: \n3: \n3: \n"


def test_a_document_hides_the_words_of_a_command() -> None:
    words = ["sshpass", "-p", "calvinX1", "ssh", "a@b"]
    assert json.loads(json_text({"command": {"argv": words}}))["command"]["argv"] == ["sshpass", "-p", "[secret]", "ssh", "a@b"]


@pytest.mark.parametrize("before", ["\\u005c" + "u005c" * 5000, "\\" * 9000 + '"', "\\" * 9000 + "u0041"], ids=["escapes", "marks", "both"])
def test_any_depth_of_texts_in_texts_comes_to_an_end(before: str) -> None:
    assert "Hunter22x" not in mask_secrets(f"{before} password=Hunter22x")


@pytest.mark.parametrize("written", [json.dumps, repr])
def test_lists_in_lists_take_no_power_of_their_depth(written: Callable[[Any], str]) -> None:
    def seconds(depth: int) -> float:
        text = "curl --token abcDEF123xyz"
        for _ in range(depth):
            text = written(["sh", "-c", text])
        began = time.process_time()
        assert "abcDEF" not in mask_secrets(text)
        return time.process_time() - began

    seconds(4)
    assert seconds(9) < 5, "it took minutes"


def test_a_document_hides_what_its_object_names() -> None:
    said = [{"Value": "hunter2xyz", "Name": "HF_TOKEN"}, {"name": "A", "value": "bluejay77"}]
    assert mask_values(said) == [{"Value": "[secret]", "Name": "HF_TOKEN"}, {"name": "A", "value": "bluejay77"}]
    assert mask_values({"tiktoken": "0.7.0"}) == {"tiktoken": "0.7.0"}
