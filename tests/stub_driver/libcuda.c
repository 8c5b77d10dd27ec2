/* A libcuda.so.1 of the machine that machine.h describes: its public functions, with no kernel ever run.
 * It reads CUDA_VISIBLE_DEVICES as the real one does (rules/compat/cuda-visible-devices.toml). */
#include "machine.h"

#include <ctype.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, NOT_SUPPORTED = 801 };

static Device seen[MOST];
static int count, initialised;
static void *current;

/* The device that one entry of CUDA_VISIBLE_DEVICES means, -1 if it means none. */
static int meant(const char *entry, const Device *all, int number) {
  while (isspace((unsigned char)*entry)) entry++;
  size_t length = strcspn(entry, " ,");
  if (!strncmp(entry, "GPU-", 4) || !strncmp(entry, "MIG-", 4)) {
    int found = -1;
    if (length == 4) return -1;
    for (int i = 0; i < number; i++) {
      if (strncmp(all[i].uuid, entry, length)) continue;
      if (found >= 0) return -1;
      found = i;
    }
    return found;
  }
  char *end;
  long index = strtol(entry, &end, 0);
  return end == entry || index < 0 || index >= number ? -1 : (int)index;
}

static Result choose(void) {
  Device all[MOST];
  int number = read_devices(all), taken[MOST] = {0};
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  count = 0;
  if (!visible) memcpy(seen, all, sizeof all), count = number;
  for (const char *entry = visible; entry; entry = strchr(entry, ',') ? strchr(entry, ',') + 1 : NULL) {
    int index = meant(entry, all, number);
    if (index < 0) break;
    if (taken[index]++) return INVALID_DEVICE;
    seen[count++] = all[index];
  }
  return count ? OK : NO_DEVICE;
}

#define DEVICE(d) ENTER; if (!initialised) return NOT_INITIALIZED; if (d < 0 || d >= count) return INVALID_DEVICE

Result cuDriverGetVersion(int *version) { ENTER; *version = driver_version(); return OK; }
Result cuInit(unsigned flags) {
  ENTER;
  (void)flags;
  if (initialised) return OK;
  Result result = choose();
  initialised = result == OK;
  return result;
}
Result cuDeviceGetCount(int *number) { ENTER; if (!initialised) return NOT_INITIALIZED; *number = count; return OK; }
Result cuDeviceGet(int *device, int index) { DEVICE(index); *device = index; return OK; }
Result cuDeviceGetName(char *name, int size, int device) { DEVICE(device); snprintf(name, size, "%s", seen[device].name); return OK; }
Result cuDeviceTotalMem_v2(size_t *bytes, int device) { DEVICE(device); *bytes = seen[device].bytes; return OK; }
/* Of a MIG instance the first one tells the GPU that it is on, the second one itself. */
Result cuDeviceGetUuid(unsigned char *uuid, int device) {
  DEVICE(device);
  uuid_bytes(*seen[device].parent ? seen[device].parent : seen[device].uuid, uuid);
  return OK;
}
Result cuDeviceGetUuid_v2(unsigned char *uuid, int device) { DEVICE(device); uuid_bytes(seen[device].uuid, uuid); return OK; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  DEVICE(device);
  switch (attribute) { /* CUdevice_attribute of cuda.h */
    case 1: *value = 1024; return OK;                    /* MAX_THREADS_PER_BLOCK */
    case 10: *value = 32; return OK;                     /* WARP_SIZE */
    case 16: *value = 132; return OK;                    /* MULTIPROCESSOR_COUNT */
    case 33: *value = seen[device].bus; return OK;       /* PCI_BUS_ID */
    case 39: *value = 2048; return OK;                   /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 75: *value = seen[device].major; return OK;     /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = seen[device].minor; return OK;     /* COMPUTE_CAPABILITY_MINOR */
    default: *value = 0; return OK;
  }
}
Result cuDevicePrimaryCtxRetain(void **context, int device) { DEVICE(device); *context = current = &seen[device]; return OK; }
Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { DEVICE(device); *flags = 0; *active = current == &seen[device]; return OK; }
Result cuCtxGetCurrent(void **context) { ENTER; *context = current; return OK; }
Result cuCtxSetCurrent(void *context) { ENTER; current = context; return OK; }
Result cuMemGetInfo_v2(size_t *available, size_t *total) {
  ENTER;
  *total = current ? ((Device *)current)->bytes : 0;
  *available = *total - (*total >> 6);
  return OK;
}
/* "Memory of the device" is the host's own. */
Result cuMemAlloc_v2(void **pointer, size_t bytes) { ENTER; *pointer = calloc(1, bytes ? bytes : 1); return *pointer ? OK : OUT_OF_MEMORY; }
Result cuMemFree_v2(void *pointer) { ENTER; free(pointer); return OK; }
Result cuLaunchKernel(void) { ENTER; return OK; }
Result cuGetErrorString(Result code, const char **text) { ENTER; (void)code; *text = "an error"; return OK; }

/* torch looks for these before it describes a failed allocation. */
#define NOT_HERE(name) Result name(void) { ENTER; return NOT_SUPPORTED; }
NOT_HERE(cuMemAddressFree) NOT_HERE(cuMemAddressReserve) NOT_HERE(cuMemCreate) NOT_HERE(cuMemExportToShareableHandle)
NOT_HERE(cuMemGetAddressRange_v2) NOT_HERE(cuMemGetAllocationGranularity) NOT_HERE(cuMemGetAllocationPropertiesFromHandle)
NOT_HERE(cuMemImportFromShareableHandle) NOT_HERE(cuMemMap) NOT_HERE(cuMemRelease) NOT_HERE(cuMemRetainAllocationHandle)
NOT_HERE(cuMemSetAccess) NOT_HERE(cuMemUnmap) NOT_HERE(cuMemsetD32Async) NOT_HERE(cuMulticastAddDevice) NOT_HERE(cuMulticastBindMem)
NOT_HERE(cuMulticastCreate) NOT_HERE(cuMulticastUnbind) NOT_HERE(cuPointerGetAttribute) NOT_HERE(cuStreamWriteValue32)
NOT_HERE(cuCtxFromGreenCtx) NOT_HERE(cuCtxPopCurrent) NOT_HERE(cuCtxPushCurrent) NOT_HERE(cuDevResourceGenerateDesc)
NOT_HERE(cuDevSmResourceSplitByCount) NOT_HERE(cuDeviceGetDevResource) NOT_HERE(cuGreenCtxCreate) NOT_HERE(cuGreenCtxDestroy)
NOT_HERE(cuGreenCtxStreamCreate) NOT_HERE(cuStreamGetCtx) NOT_HERE(cuLogsRegisterCallback) NOT_HERE(cuLogsUnregisterCallback)

/* There is nothing in it: what the runtime asks beyond public functions is between it and the real driver. */
Result cuGetExportTable(const void **table, const void *uuid) { ENTER; (void)uuid; *table = NULL; return INVALID_VALUE; }

static Result find(const char *name, void **function, void *itself) {
  Dl_info own;
  char newer[128];
  *function = NULL;
  if (!strcmp(name, "cuGetProcAddress")) return *function = itself, OK;
  if (!dladdr((void *)find, &own)) return NOT_FOUND;
  void *library = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  snprintf(newer, sizeof newer, "%s_v2", name);
  if (library && !(*function = dlsym(library, newer))) *function = dlsym(library, name);
  return *function ? OK : NOT_FOUND;
}
/* How a runtime finds the functions: not logged, it asks for several hundred. */
Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  (void)version, (void)flags;
  return find(name, function, (void *)cuGetProcAddress);
}
Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  (void)version, (void)flags;
  Result result = find(name, function, (void *)cuGetProcAddress_v2);
  if (status) *status = result ? 1 : 0; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
  return result;
}
