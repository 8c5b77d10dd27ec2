"""Words of shells, programs and schedulers for a failure, and the lines of healthy programs that hold the same words."""

from __future__ import annotations

import time

import pytest
from own_reports import BY

from envcheck.commands import diagnose
from envcheck.read.failed import says_failure

FAILED = """\
Killed
Aborted (core dumped)
Aborted
terminate called without an active exception
malloc(): corrupted top size
free(): invalid pointer
double free or corruption (!prev)
        (0) Abnormal termination (signal 9)
Aborted!
triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376.
requests.exceptions.Timeout
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
Job has reached the specified backoff limit
salloc: Job allocation 12 has been revoked.
Job 4112 abnormal termination, signal 11
Abnormal termination (Signal 9)
[Inferior 1 (process 123) exited with code 01]
AddressSanitizer:DEADLYSIGNAL
AddressSanitizer: alloc-dealloc-mismatch (malloc vs operator delete)
SUMMARY: AddressSanitizer: 4096 byte(s) leaked in 1 allocation(s).
Abnormal termination was reported by rank 3
abnormal termination has occurred on node07
Your HF token has been revoked.
Job was held for insufficient funds
RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes
Finished: ABORTED
*** stack smashing detected ***: terminated
python: malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av))' failed.
Floating point exception (core dumped)
Trace/breakpoint trap (core dumped)
CPU time limit exceeded
zsh: segmentation fault  python train.py
zsh: abort      python train.py
[1]+  Exit 1                  python train.py
fish: Job 1, 'python train.py' terminated by signal SIGKILL (Forced quit)
exit status 139
Exited with code 1
Process completed with exit code 1.
##[error]Process completed with exit code 2.
Process finished with exit code -1073741819 (0xC0000005)
{"exitCode": 1}
rc=1
subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.
make: *** [Makefile:3: train] Error 1
training failed
RUN FAILED
State: FAILED
Training aborted.
rank 3 died
rank 3 is not responding
Loss diverged to NaN. Stopping training.
CRITICAL: training loop stopped
level=fatal msg="boom"
python: can't open file '/w/train.py': [Errno 2] No such file or directory
bash: python: command not found
/bin/sh: 1: python: not found
FAILED (errors=1)
1 failed, 3 passed in 2.11s
[rank0]: Traceback (most recent call last):
[rank0]: KeyboardInterrupt
[rank0]: RuntimeError
torch.AcceleratorError
SystemExit: 1
Unhandled exception
E1130 10:00:00 main.cc:3] Check failed: x == y
INTERNAL ASSERT FAILED at "../c10/core/Device.h":3
thread 'main' panicked at src/main.rs:3:5:
train.service: Failed with result 'oom-kill'.
train-0   0/1   CrashLoopBackOff   7   3h
train-0   0/1   Error   0   3h
OCI runtime create failed: unable to start container process
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
[n1:7] *** An error occurred in MPI_Allreduce
ssh: connect to host n3 port 22: No route to host
Terminated
Speicherzugriffsfehler (Speicherabzug geschrieben)
Abgebrochen (Speicherabzug geschrieben)
Getötet
セグメンテーション違反です (コアダンプ)
段错误 (核心已转储)
已放弃 (核心已转储)
Ошибка сегментирования
Violación de segmento
exited with signal 11
Return code: 1
Task exited with non-zero status
123.batch|batch|OUT_OF_MEMORY|0:125
123|train|NODE_FAIL|1:0
123  gpu  train  FAILED  1:0
Reason: DeadlineExceeded
walltime 3600 exceeded limit 3600
The job was preempted.
NaN detected in gradients, stopping
Training did not finish.
Worker exited unexpectedly
No module named train
Could not find checkpoint at /data/last.pt
Processus arrêté
step 4 loss inf
step 5 | loss -inf | lr 1e-4
{"step": 4, "loss": Infinity}
{"step": 4, "loss": null}
{'loss': inf, 'grad_norm': 3.1, 'epoch': 0.1}
{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.2}
step 4 loss None
step 4 loss 1.#QNAN
step 4 loss 1.#INF
step 4 loss 3.4028235e+38
step 4 train_loss=-Infinity best_loss=0.3
loss: tensor(nan, device='cuda:0', grad_fn=<NllLossBackward0>)
        1/3      2.39G        nan        nan        nan         20        640: 100%|#####| 8/8 [00:03<00:00]
 iteration 20/ 100 | loss scale: 1.0 | number of skipped iterations:   0 | number of nan iterations:  10 |
step 100 ppl nan
non-finite loss, skipping
worker 3 (pid 12) finished with code 7
rank 2 left the group early with status 134
worker 2 ended, exit code 3
3 finished, 1 not
pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received
mce: [Hardware Error]: Machine check events logged
EDAC MC0: 1 UE memory read error on CPU_SrcID#0
uncorrectable memory on GPU 3
watchdog: soft lockup - CPU#3 stuck for 22s! [python:1234]
INFO: task python:1234 blocked for more than 120 seconds.
pod train-0 evicted: node under memory pressure
node3   NotReady   <none>   3h
fatal
Bailing out
visible GPUs: 0
device_count = 0
Assertion `t >= 0 && t < n_classes`
{"rank": 3, "status": "dead"}
status: DEGRADED
{"level": "error", "msg": "peer gone", "rank": 3}
only 3 of 8 nodes reported back
result: unsuccessful
checkpoint step_100.pt is truncated (0 bytes)
lost contact with node07
rank 3 is gone
| PCIe                      | Fail - GPU: 3                                  |
Prozess wurde beendet: Speicher voll
❌ allreduce
il processo è morto
el proceso se cayó
le processus est tombé
proces padł
işlem çöktü
프로세스가 죽었습니다
tiến trình bị giết
توقفت العملية بشكل غير متوقع
процесс упал с кодом 139
プロセスが異常終了しました
进程崩溃
{'loss': np.float64(nan), 'step': 30}
loss/train: nan
Loss (train) nan
loss_ce: nan loss_kl: 0.3
loss tensor([nan])
loss_G: nan
train nan val nan
cost nan
objective nan
损失: nan
step 30 loss -1.#J
loss ******
loss: 8.1e+19
loss = undefined
loss: ∞
loss: 99999999999999999999999999999
loss 340282346638528859811704183484516925440.0000
loss 2.1 grad      nan
lossD: nan
loss/total=nan
bpb: nan
child ended: 137
exit status of worker 3 is 137
subprocess ended with 255
Out of Memory: killed pid 12
ENOSPC
OSError: [Errno 28]
Disk full
checksum mismatch in shard 3
checkpoint is corrupt
GPU 3 needs reset
ECC double bit error on GPU 2
link down on mlx5_0
job was cancelled by user
Job cancelled
unexpected EOF
El proceso terminó con error
processus tué
Prozess gestorben
训练终止
进程被杀死
메모리 부족
メモリ不足
процесс умер
proces zakończony kodem 137
checkpoint x.pt is truncated (0 bytes)
""".splitlines()
HEALTHY = """\
epoch 1: loss 2.34, lr 1e-4, 1234 tokens/s
Training finished successfully, 0 errors.
4 passed, 0 failed in 2.11s
exit code 0
Process finished with exit code 0
n1:7:7 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so, error 2
2026-11-30 10:00:00 WARNING retry 1 of 3: upload failed
[W1130 10:00:00 socket.cpp:200] The client socket has failed to connect
I1130 10:00:00 main.cc:3] last run failed, starting over
error_rate: 0.1
MeanSquaredError: 0.11
no errors found
{"status": 200, "loss": 0.3}
status=1 epoch=2
rc=10.2
Early exit 3 of 12 layers
+ trap 'exit 1' ERR
failed batches skipped 0
{"level":"info","msg":"checkpoint of a failed run was found"}
cd /data || exit 1
+ set -e; exec python train.py --exit-after 3
best_val_loss=inf
Best validation loss: inf
{"best_loss": Infinity, "step": 0}
args: max_grad_norm=inf lr=inf patience=3
loss = float('inf')
Validation loss decreased (inf --> 0.322114).  Saving model ...
val_loss: inf -> 0.32
Epoch 1: val_loss improved from inf to 0.32345, saving model to best.h5
CausalLMOutputWithPast(loss=None, logits=tensor([[1.0]]), past_key_values=None)
{"step": 1, "loss": 2.3, "val_loss": null}
step 10: loss=2.1, best_loss=None
"early_stop": {"loss": null}
mIoU: 0.61, class 'train': nan (absent in the set)
 iteration 20/ 100 | grad norm: 3.1 | number of skipped iterations:   0 | number of nan iterations:   0 |
worker 3 finished with code 0
request completed with status 204
pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3a:00.0
    SRAM Uncorrectable            : 0
kv cache: 12 blocks evicted
non-fatal: telemetry is off
available GPUs: 0,1,2,3
visible GPUs: 8
Trial status: 4 TERMINATED
{"status": "running", "level": "info"}
only 8 of 8 workers reported
error_if_nonfinite=False
0 unsuccessful attempts
episode 10 reward -200 terminated=True truncated=False
sequences of the file are truncated to 512 tokens
没有错误
训练完成, 错误率 0.12
エラーなし
오류 없음
без ошибок
Fehlgeschlagen: 0
{'loss': 2.4, 'grad_norm': inf, 'learning_rate': 0.0, 'epoch': 0.1}
step 1 loss 9.11 grad_norm inf loss_scale 65536 (skipped, overflow)
Found GPU 0: NVIDIA H100 80GB HBM3
Found GPU: 0 (NVIDIA H100)
Available GPUs: [0]
Detected GPU 0 with compute capability 9.0
Non-finite gradient check passed
non-finite grads: 0
AMP: steps with non-finite gradients are skipped
skip_nonfinite: non-finite gradients will be skipped
Only 2 of 8 tasks left
Only 4 of 16 workers used for data loading on this node
Dataset file train.jsonl: 132 rows were truncated (max_length=512)
worker cache: 120 entries evicted from LRU
job train: 0 pods evicted
loss: null
gradient_clip_norm: inf
step 0 loss 66.4 ppl 6.9e+18
код 200 получен
❌ wandb disabled
✗ flash-attn not installed (optional)
GET /metrics finished with status 304
Entraînement arrêté à l'époque 10 (early stopping)
tỷ lệ lỗi 3.2%
ref_loss=inf
old_loss=inf new_loss=0.4
best val_loss: inf
val_loss (inf --> 0.32)
loss 2.13 grad_norm 1.2
step 30 loss 12345678901.5
fp16 loss scale 65536, OVERFLOW! skipping
No abnormal termination was seen
abnormal termination: 0
Watching for abnormal termination
abnormal termination handler installed
On abnormal termination a checkpoint is saved
AddressSanitizer: stack-use-after-return checks on
I0000 autotuner: RESOURCE_EXHAUSTED: Out of memory, trying next config
grpc backoff on RESOURCE_EXHAUSTED: sleeping 1.0 s, then succeeded
0 jobs reached the specified backoff limit
Job was held by user, then released
app.exceptions.Handler: registered
torch._dynamo.exc.Stats: graph_breaks=0
INFO refreshed: previous access token has been revoked
[Consumer clientId=c] partition data-0 has been revoked
-- AddressSanitizer: OFF
W0000 tuning: RESOURCE_EXHAUSTED: Out of memory, skipping config
pods that reached the specified backoff limit: 0
pandas.errors.PerformanceWarning: DataFrame is highly fragmented
pydantic.errors.PydanticDeprecatedSince20: use model_dump
[Inferior 1 (process 1) exited normally]
""".splitlines()


@pytest.mark.parametrize("line", FAILED)
def test_a_failure_is_heard_whatever_stands_around_it(line: str) -> None:
    assert says_failure(f"epoch 0 step 50 loss 6.2\n{line}\nepoch 0 step 60 loss 6.1\n")


@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_line_with_such_words_is_no_failure(line: str) -> None:
    assert not says_failure(f"{line}\n")


OMP = (
    "W1130 10:00:00.000000 7 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in "
    "default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application."
)


def code(text: str) -> int:
    given = diagnose.Given(BY)
    given.take_raw(text, "log")
    return diagnose.diagnose(given)[0].exit_code


@pytest.mark.parametrize("before", [OMP, "$ python train.py", "+ srun --ntasks=8 python train.py --epochs 3"])
@pytest.mark.parametrize("end", FAILED[::4])
def test_no_harmless_line_makes_a_failed_run_a_healthy_one(before: str, end: str) -> None:
    assert code(f"{before}\nepoch 0 step 50 loss 6.2\n{end}\n") != 0


def test_a_harmless_line_leaves_a_healthy_run_healthy() -> None:
    assert code(f"{OMP}\nepoch 0 step 50 loss 6.2\n{HEALTHY[1]}\n") == 0


@pytest.mark.parametrize(
    "line", ["exit now 2026", "INFO failed to", "0 errors", "全部正常运行训练继续", "Assertion ", "status=0 rc=0 exit of a", "e"]
)
def test_its_search_is_linear_and_short(line: str) -> None:
    def seconds(times: int) -> float:
        text = f"{line}\n" * times + line * times
        began = time.process_time()
        assert not says_failure(text)
        return time.process_time() - began

    seconds(100)
    small, large = min(seconds(3000) for _ in range(3)), min(seconds(12_000) for _ in range(2))
    assert large < 10 * small + 0.05


INIT = (
    "/v/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check that you have an "
    "NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx (Triggered internally at CUDAFunctions.cpp:119.)\n"
)


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("epoch 1 step 10 loss 2.3\nTraining finished successfully, 0 errors.\n", 3),
        ("========== 4 passed, 1 warning in 2.11s ==========\n", 3),
        ("Fixed by reinstalling the driver; today all is well.\n", 3),
        ("That was yesterday. The job ran without problems, the message came from the update and is gone.\n", 3),
        ("", 1),
        ("The training is not done.\n", 1),
        ("Job 12 ended, State=TIMEOUT\n", 1),
        ("Training finished\n123|train|NODE_FAIL|1:0\n", 1),
        ("Training completed 3 of 100 epochs\n", 1),
        ("Training finished successfully.\nRuntimeError: No CUDA GPUs are available\n", 1),
        ("The data download job is done, but training is slow. Why?\n", 1),
    ],
)
def test_what_was_got_over_is_not_certain(after: str, code: int) -> None:
    given = diagnose.Given(BY)
    given.take_raw(INIT + after, "log")
    report, _ = diagnose.diagnose(given)
    assert report.exit_code == code and report.findings, "named all the same"
