/* A fake libnvidia-ml.so.1: two H100s, the second one with MIG. cc -shared -fPIC -o DIR/libnvidia-ml.so.1 fake_nvml.c
 * FAKE_NVML: ok, mismatch (18), nodriver (9), noperm (4), unknown (999), empty (no device), hang, segv (in init),
 * lost (no handle for GPU 1), late (GPU 1 is lost after its identity was read), crash (in the health of GPU 1), nocuda.
 * FAKE_NVML_HANDLE and FAKE_NVML_QUERY: codes that the handle of GPU 1, and the queries after its identity, are answered with. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
typedef struct device { unsigned index; int mig; } *D;
typedef unsigned long long U64;
static struct device gpus[2] = {{0, -1}, {1, -1}}, instances[2] = {{1, 0}, {1, 1}};

static int mode(const char *name) { const char *v = getenv("FAKE_NVML"); return !strcmp(v && *v ? v : "ok", name); }
static R put(char *to, unsigned size, const char *text) { if (strlen(text) >= size) return 7; strcpy(to, text); return 0; }
static int code(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
static R gone(D d) { return d->index != 1 ? 0 : mode("late") ? 15 : code("FAKE_NVML_QUERY"); }

R nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  if (mode("hang")) for (;;) pause();
  if (mode("segv")) raise(SIGSEGV);
  return mode("mismatch") ? 18 : mode("nodriver") ? 9 : mode("noperm") ? 4 : mode("unknown") ? 999 : 0;
}
const char *nvmlErrorString(R r) { return r == 18 ? "Driver/library version mismatch" : r == 9 ? "Driver Not Loaded" : r == 4 ? "Insufficient Permissions" : r == 15 ? "GPU is lost" : r == 16 ? "GPU requires reset"
  : r == 17 ? "The operating system has blocked the request." : r == 3 ? "Not Supported" : r == 27 ? "System is not in ready state" : "Unknown Error"; }
R nvmlSystemGetDriverVersion(char *b, unsigned n) { return put(b, n, "580.95.05"); }
R nvmlSystemGetNVMLVersion(char *b, unsigned n) { return put(b, n, "13.580.95.05"); }
R nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13000; return mode("nocuda") ? 12 : 0; }
R nvmlSystemGetProcessName(unsigned pid, char *b, unsigned n) { (void)pid; return put(b, n, "python3"); }
R nvmlDeviceGetCount_v2(unsigned *n) { *n = mode("empty") ? 0 : 2; return 0; }
R nvmlDeviceGetHandleByIndex_v2(unsigned i, D *d) { if (i > 1) return 2; if (mode("lost") && i == 1) return 15;
  if (i == 1 && code("FAKE_NVML_HANDLE")) return code("FAKE_NVML_HANDLE");
  *d = &gpus[i]; return 0; }
R nvmlDeviceGetName(D d, char *b, unsigned n) { (void)d; return put(b, n, "NVIDIA H100 80GB HBM3"); }
R nvmlDeviceGetUUID(D d, char *b, unsigned n) {
  char t[80];
  if (d->mig >= 0) snprintf(t, sizeof t, "MIG-0000000%d", d->mig);
  else snprintf(t, sizeof t, "GPU-0000000%u-aaaa-bbbb-cccc-dddddddddddd", d->index);
  return put(b, n, t);
}
R nvmlDeviceGetCudaComputeCapability(D d, int *a, int *b) { (void)d; *a = 9; *b = 0; return 0; }
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
R nvmlDeviceGetPciInfo_v3(D d, Pci *p) { memset(p, 0, sizeof *p); p->bus = d->index + 1; snprintf(p->bus_id, 32, "00000000:%02X:00.0", d->index + 1); return 0; }
typedef struct { unsigned version; U64 total, reserved, free, used; } Memory;
R nvmlDeviceGetMemoryInfo_v2(D d, Memory *m) { m->total = 81559ull << 20; m->reserved = 0; m->used = 4ull << 20; m->free = m->total - m->used; return gone(d); }
R nvmlDeviceGetMigMode(D d, unsigned *now, unsigned *next) { *now = *next = d->index; return gone(d); }
R nvmlDeviceGetMaxMigDeviceCount(D d, unsigned *n) { (void)d; *n = 7; return 0; }
R nvmlDeviceGetMigDeviceHandleByIndex(D d, unsigned i, D *m) { (void)d; if (i > 1) return 6; *m = &instances[i]; return 0; }
R nvmlDeviceGetEccMode(D d, unsigned *now, unsigned *next) { if (mode("crash") && d->index == 1) abort(); *now = *next = 1; return gone(d); }
R nvmlDeviceGetTotalEccErrors(D d, int kind, int counter, U64 *n) { (void)d; *n = kind == 1 ? (counter ? 3 : 1) : 99; return 0; }
R nvmlDeviceGetRemappedRows(D d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) { (void)d; *c = 0; *u = 1; *p = 1; *f = 0; return 0; }
typedef struct { unsigned id, scope; long long time, latency; int type, code; union { unsigned u; U64 v; } value; } Field;
R nvmlDeviceGetFieldValues(D d, int n, Field *f) { (void)d; for (int i = 0; i < n; i++) { f[i].code = 0; f[i].value.u = 1; } return 0; }
R nvmlDeviceGetComputeMode(D d, int *m) { (void)d; *m = 3; return 0; }
R nvmlDeviceGetCurrentClocksEventReasons(D d, U64 *m) { (void)d; *m = 0x44; return 0; }
R nvmlDeviceGetCurrPcieLinkGeneration(D d, unsigned *v) { (void)d; *v = 4; return 0; }
R nvmlDeviceGetMaxPcieLinkGeneration(D d, unsigned *v) { (void)d; *v = 5; return 0; }
R nvmlDeviceGetCurrPcieLinkWidth(D d, unsigned *v) { (void)d; *v = 8; return 0; }
R nvmlDeviceGetMaxPcieLinkWidth(D d, unsigned *v) { (void)d; *v = 16; return 0; }
R nvmlDeviceGetTemperature(D d, int s, unsigned *v) { (void)d; (void)s; *v = 41; return 0; }
R nvmlDeviceGetPowerUsage(D d, unsigned *v) { (void)d; *v = 79350; return 0; }
R nvmlDeviceGetEnforcedPowerLimit(D d, unsigned *v) { (void)d; *v = 700000; return 0; }
R nvmlDeviceGetClockInfo(D d, int k, unsigned *v) { (void)d; *v = k == 1 ? 345 : 1; return 0; }
R nvmlDeviceGetMaxClockInfo(D d, int k, unsigned *v) { (void)d; *v = k == 1 ? 1980 : 1; return 0; }
typedef struct { unsigned gpu, memory; } Rates;
R nvmlDeviceGetUtilizationRates(D d, Rates *r) { (void)d; r->gpu = 12; r->memory = 3; return 0; }
typedef struct { unsigned version; unsigned char uuid[16]; int status; unsigned clique, state, health; } Fabric;
R nvmlDeviceGetGpuFabricInfoV(D d, Fabric *f) { (void)d; f->status = 0; f->state = d->index ? 2 : 3; return 0; }
typedef struct { unsigned pid; U64 used; unsigned gi, ci; } Process;
R nvmlDeviceGetComputeRunningProcesses_v3(D d, unsigned *n, Process *p) {
  if (d->index) { *n = 0; return 0; }
  if (*n < 1 || !p) { *n = 1; return 7; }
  *n = 1; p->pid = 416; p->used = 2666ull << 20; p->gi = p->ci = ~0u; return 0;
}
