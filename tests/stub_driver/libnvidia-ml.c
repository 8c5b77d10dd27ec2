/* A libnvidia-ml.so.1 of the machine that machine.h describes: the GPUs that its devices are, or are instances of. They are in good health.
 * STUB_RELEASE is the version of the driver ("595.58.03"). */
#include "machine.h"

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct { Device device; int instances, mig[MOST]; } Gpu;
typedef unsigned long long Number;

static Device devices[MOST];
static Gpu gpus[MOST], slices[MOST];
static int number;

static Result put(char *into, unsigned size, const char *text) {
  if (strlen(text) >= size) return INSUFFICIENT_SIZE;
  strcpy(into, text);
  return OK;
}

static Gpu *gpu_of(const Device *device) {
  const char *uuid = *device->parent ? device->parent : device->uuid;
  for (int i = 0; i < number; i++) if (!strcmp(gpus[i].device.uuid, uuid)) return &gpus[i];
  Gpu *gpu = &gpus[number++];
  memset(gpu, 0, sizeof *gpu);
  gpu->device = *device;
  strcpy(gpu->device.uuid, uuid);
  char *slice = strstr(gpu->device.name, " MIG "); /* "NVIDIA A100-SXM4-40GB MIG 1g.5gb" */
  if (slice) *slice = 0;
  return gpu;
}

Result nvmlInitWithFlags(unsigned flags) {
  ENTER;
  (void)flags;
  number = 0;
  int count = read_devices(devices);
  for (int i = 0; i < count; i++) {
    Gpu *gpu = gpu_of(&devices[i]);
    slices[i].device = devices[i];
    if (*devices[i].parent) gpu->mig[gpu->instances++] = i;
  }
  return OK;
}
Result nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Result nvmlInit(void) { return nvmlInitWithFlags(0); }
Result nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(Result code) { return code == NOT_SUPPORTED ? "Not Supported" : "Unknown Error"; }
Result nvmlSystemGetDriverVersion(char *into, unsigned size) { return put(into, size, setting("STUB_RELEASE")); }
Result nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = driver_version(); return OK; }
Result nvmlDeviceGetCount_v2(unsigned *count) { *count = number; return OK; }
Result nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **gpu) { *gpu = &gpus[index]; return (int)index < number ? OK : INVALID_ARGUMENT; }
Result nvmlDeviceGetHandleByUUID(const char *uuid, Gpu **gpu) {
  for (int i = 0; i < number; i++) if (!strcmp(gpus[i].device.uuid, uuid)) return *gpu = &gpus[i], OK;
  for (int i = 0; i < MOST; i++) if (*devices[i].parent && !strcmp(devices[i].uuid, uuid)) return *gpu = &slices[i], OK;
  return NOT_FOUND;
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Gpu **gpu) {
  unsigned domain, bus;
  if (sscanf(bus_id, "%x:%x", &domain, &bus) != 2) return INVALID_ARGUMENT;
  for (int i = 0; i < number; i++) if (gpus[i].device.bus == (int)bus) return *gpu = &gpus[i], OK;
  return NOT_FOUND;
}
Result nvmlDeviceGetName(Gpu *gpu, char *into, unsigned size) { return put(into, size, gpu->device.name); }
Result nvmlDeviceGetUUID(Gpu *gpu, char *into, unsigned size) { return put(into, size, gpu->device.uuid); }
Result nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) { *major = gpu->device.major; *minor = gpu->device.minor; return OK; }
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
Result nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *into) {
  memset(into, 0, sizeof *into);
  into->bus = gpu->device.bus;
  snprintf(into->bus_id, sizeof into->bus_id, "00000000:%02X:00.0", into->bus);
  return OK;
}
Result nvmlDeviceGetMemoryInfo(Gpu *gpu, Number *into) { /* total, free, used */
  into[0] = gpu->device.bytes, into[2] = into[0] >> 6, into[1] = into[0] - into[2];
  return OK;
}
typedef struct { unsigned version; Number total, reserved, free, used; } Memory;
Result nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, Memory *into) {
  into->total = gpu->device.bytes, into->reserved = 0, into->used = into->total >> 6, into->free = into->total - into->used;
  return OK;
}
Result nvmlDeviceGetMigMode(Gpu *gpu, unsigned *now, unsigned *next) { *now = *next = gpu->instances > 0; return OK; }
Result nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned *count) { *count = gpu->instances; return OK; }
Result nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, Gpu **slice) {
  if ((int)index >= gpu->instances) return NOT_FOUND;
  *slice = &slices[gpu->mig[index]];
  return OK;
}
Result nvmlDeviceGetComputeMode(Gpu *gpu, int *mode) { (void)gpu; *mode = 0; return OK; }
Result nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, unsigned *count, void *into) { (void)gpu, (void)into; *count = 0; return OK; }
Result nvmlDeviceGetComputeRunningProcesses(Gpu *gpu, unsigned *count, void *into) { return nvmlDeviceGetComputeRunningProcesses_v3(gpu, count, into); }
Result nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NOT_SUPPORTED; }
Result nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NOT_SUPPORTED; }
Result nvmlDeviceGetP2PStatus(void) { return NOT_SUPPORTED; }
