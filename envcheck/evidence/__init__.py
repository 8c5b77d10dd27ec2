"""Reading what the live check leaves behind: stacks, NCCL's logs and answers, recorder dumps, bandwidths. Never imports torch."""
