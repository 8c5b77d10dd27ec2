"""`envcheck fleet`: the same check over all hosts of a job."""
