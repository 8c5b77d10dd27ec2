"""Kubernetes manifests that run `envcheck fleet` on the nodes where a training is to run: one pod a node, no ssh, no controller of ours."""

from __future__ import annotations

import json
import re

from envcheck.errors import UsageError

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names, and room for "-node-0-0"
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?")
_RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_JOB = "metadata.labels['batch.kubernetes.io/controller-uid']"  # the same in all pods of a job, and in no other job's


def manifest(kind: str, *, name: str, image: str, nodes: int, gpus: int) -> str:
    """YAML for `kubectl apply -f -`. UsageError for a name that Kubernetes refuses."""
    if not _LABEL.fullmatch(name):
        raise UsageError(f"--name {name}: small letters, digits and hyphens, a letter first, at most 52 characters")
    if any(char.isspace() or not char.isprintable() for char in image):
        raise UsageError(f"--image {image}: a name without blanks")
    return {"job": _job, "jobset": _jobset, "trainjob": _trainjob}[kind](name, json.dumps(image), nodes, gpus)


def _job(name: str, image: str, nodes: int, gpus: int) -> str:
    """The pods of an indexed job find each other by the names that a service without an address gives them."""
    spec = _indented(_job_spec(image, nodes, gpus, f"{name}-0.{name}", name, name), 2)
    return f"""\
# The service gives the pods their names; publishNotReadyAddresses, because they look for each other before they are ready.
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    batch.kubernetes.io/job-name: {name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
{spec}"""


def _jobset(name: str, image: str, nodes: int, gpus: int) -> str:
    spec = _indented(_job_spec(image, nodes, gpus, f"{name}-node-0-0.{name}", f"{name}-node-0", None), 10)
    return f"""\
# https://jobset.sigs.k8s.io: it makes the service that gives the pods their names.
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {name}
spec:
  network:
    enableDNSHostnames: true
    publishNotReadyAddresses: true
  failurePolicy:
    maxRestarts: 0
  replicatedJobs:
    - name: node
      replicas: 1
      template:
        spec:
{spec}"""


def _trainjob(name: str, image: str, nodes: int, gpus: int) -> str:
    resources = f"    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: {gpus}\n" if gpus else ""
    return f"""\
# https://www.kubeflow.org/docs/components/trainer: the runtime gives the pods names, and PET_NNODES, PET_NODE_RANK and PET_MASTER_ADDR.
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    image: {image}
    command: [envcheck, fleet]
    numNodes: {nodes}
{resources}"""


def _job_spec(image: str, nodes: int, gpus: int, master: str, job: str, subdomain: str | None) -> str:
    """A job of one pod a node. Its exit code is the pod's; the end of its log is what `kubectl describe pod` shows of it."""
    resources = f"        resources:\n          limits:\n            nvidia.com/gpu: {gpus}\n" if gpus else ""
    named = f"    subdomain: {subdomain}\n" if subdomain else ""
    return f"""\
completionMode: Indexed
completions: {nodes}
parallelism: {nodes}
backoffLimit: 0
template:
  spec:
{named}    restartPolicy: Never
    containers:
      - name: preflight-check
        image: {image}
        command: [envcheck, fleet]
        terminationMessagePolicy: FallbackToLogsOnError
        env:
          - name: PET_NNODES
            value: "{nodes}"
          - name: PET_NODE_RANK
            valueFrom:
              fieldRef:
                fieldPath: {_RANK}
          - name: PET_MASTER_ADDR
            value: {master}
          - name: ENVCHECK_FLEET_JOB
            valueFrom:
              fieldRef:
                fieldPath: {_JOB}
{resources}\
        volumeMounts:
          - name: shm
            mountPath: /dev/shm
{_indented(_SHARED_MEMORY, 4)}{_indented(_apart(job), 4)}"""


_SHARED_MEMORY = """\
volumes:
  - name: shm # what NCCL shares within a pod; a container has 64 MiB by default
    emptyDir:
      medium: Memory
"""


def _apart(job: str) -> str:
    return f"""\
affinity:
  podAntiAffinity: # one pod a node, also where it asks for no GPU
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              batch.kubernetes.io/job-name: {job}
"""


def _indented(text: str, width: int) -> str:
    return "".join(f"{' ' * width}{line}" for line in text.splitlines(keepends=True))
