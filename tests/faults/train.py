"""A training script as short as can be; with an argument, that many seconds long."""

import datetime
import sys
import time

import torch
import torch.distributed

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=2))
torch.distributed.barrier()
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
