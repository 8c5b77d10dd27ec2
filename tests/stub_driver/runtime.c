/* What torch asks the CUDA runtime for, answered by the driver of libcuda.c: preloaded, these functions stand before those of the
 * libcudart that came with torch. That one tests whether the driver is NVIDIA's own (its error 103, cudaErrorSoftwareValidityNotEstablished)
 * once cuInit has succeeded, so nothing but NVIDIA's driver can show it a device. What is not here is answered by libcudart. */
#include "libcuda.c"

typedef struct { unsigned x, y, z; } Size;

static _Thread_local int device;
static _Thread_local Result last;
static _Thread_local struct { Size grid, block; size_t shared; void *stream; } pushed;

static Result done(Result result) { if (result) last = result; return result; }
static Result context(void) {
  void *made;
  Result result = cuInit(0);
  return result ? result : cuDevicePrimaryCtxRetain(&made, device);
}
#define CONTEXT Result failed_ = context(); if (failed_) return done(failed_)

Result cudaGetLastError(void) { Result result = last; last = 0; return result; }
Result cudaPeekAtLastError(void) { return last; }

Result cudaGetDeviceCount(int *number) { Result result = cuInit(0); return done(result ? result : cuDeviceGetCount(number)); }
Result cudaGetDevice(int *number) { Result result = cuInit(0); *number = device; return done(result); }
Result cudaSetDevice(int number) { device = number; return done(context()); }
Result cudaDeviceSynchronize(void) { CONTEXT; return 0; }
Result cudaDeviceGetAttribute(int *value, int attribute, int number) { Result result = cuInit(0); return done(result ? result : cuDeviceGetAttribute(value, attribute, number)); }
Result cudaDeviceCanAccessPeer(int *can, int one, int other) { (void)one, (void)other; *can = 0; return 0; }
Result cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }

/* Offsets in cudaDeviceProp (driver_types.h): major and minor stand at one place, what follows does not. */
static Result properties(char *into, int number, size_t size, size_t processors, size_t bus, size_t threads) {
  Result result = cuInit(0);
  memset(into, 0, size);
  if (result || (result = cuDeviceGetName(into, 256, number))) return done(result);
  cuDeviceGetUuid((unsigned char *)into + 256, number); /* the function of CUDA 9.2 is what libcudart asks for, up to 13.2 */
  cuDeviceTotalMem_v2((size_t *)(into + 288), number);
  cuDeviceGetAttribute((int *)(into + 308), 10, number);
  cuDeviceGetAttribute((int *)(into + 320), 1, number);
  cuDeviceGetAttribute((int *)(into + 360), 75, number);
  cuDeviceGetAttribute((int *)(into + 364), 76, number);
  cuDeviceGetAttribute((int *)(into + processors), 16, number);
  cuDeviceGetAttribute((int *)(into + bus), 33, number);
  cuDeviceGetAttribute((int *)(into + threads), 39, number);
  for (int i = 0; i < 3; i++) ((int *)(into + 324))[i] = i < 2 ? 1024 : 64, ((int *)(into + 336))[i] = i ? 65535 : 2147483647;
  return 0;
}
Result cudaGetDeviceProperties_v2(void *into, int number) { return properties(into, number, 1032, 388, 584, 624); } /* CUDA 12 */
Result cudaGetDeviceProperties(void *into, int number) { return properties(into, number, 1008, 384, 568, 604); }    /* CUDA 13 */

Result cudaMalloc(void **pointer, size_t bytes) { CONTEXT; return done(cuMemAlloc_v2(pointer, bytes)); }
Result cudaFree(void *pointer) { CONTEXT; return done(cuMemFree_v2(pointer)); }
Result cudaMemGetInfo(size_t *available, size_t *total) { CONTEXT; return done(cuMemGetInfo_v2(available, total)); }
Result cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) { CONTEXT; (void)flags; *pointer = calloc(1, bytes ? bytes : 1); return 0; }
Result cudaMallocHost(void **pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }
Result cudaFreeHost(void *pointer) { free(pointer); return 0; }
Result cudaMemcpy(void *to, const void *from, size_t bytes, int kind) { CONTEXT; (void)kind; memcpy(to, from, bytes); return 0; }
Result cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) { (void)stream; return cudaMemcpy(to, from, bytes, kind); }
Result cudaMemset(void *to, int value, size_t bytes) { CONTEXT; memset(to, value, bytes); return 0; }
Result cudaMemsetAsync(void *to, int value, size_t bytes, void *stream) { (void)stream; return cudaMemset(to, value, bytes); }
typedef struct { int kind, device; void *on_device, *on_host; } Pointer;
Result cudaPointerGetAttributes(Pointer *into, const void *pointer) { (void)pointer; memset(into, 0, sizeof *into); return 0; }

Result cudaStreamIsCapturing(void *stream, int *state) { (void)stream; *state = 0; return 0; }
Result cudaStreamGetCaptureInfo_v2(void *stream, int *state) { (void)stream; *state = 0; return 0; }
Result cudaStreamGetCaptureInfo(void *stream, int *state) { (void)stream; *state = 0; return 0; }
Result cudaThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return 0; }
Result cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { CONTEXT; (void)flags, (void)priority; *stream = malloc(1); return 0; }
Result cudaStreamCreateWithFlags(void **stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
Result cudaStreamDestroy(void *stream) { free(stream); return 0; }
Result cudaStreamSynchronize(void *stream) { (void)stream; CONTEXT; return 0; }
Result cudaStreamQuery(void *stream) { (void)stream; return 0; }
Result cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream, (void)event, (void)flags; return 0; }
Result cudaEventCreateWithFlags(void **event, unsigned flags) { CONTEXT; (void)flags; *event = malloc(1); return 0; }
Result cudaEventDestroy(void *event) { free(event); return 0; }
Result cudaEventRecord(void *event, void *stream) { (void)event, (void)stream; return 0; }
Result cudaEventQuery(void *event) { (void)event; return 0; }
Result cudaEventSynchronize(void *event) { (void)event; return 0; }

/* Kernels are found and launched, and do nothing: memory stays as it was, which is all zeros. */
Result cudaFuncGetAttributes(int *into, const void *function) {
  (void)function;
  memset(into, 0, 3 * sizeof(size_t) + 7 * sizeof(int));
  into[6] = 1024; /* maxThreadsPerBlock */
  return 0;
}
Result cudaFuncSetAttribute(const void *function, int attribute, int value) { (void)function, (void)attribute, (void)value; return 0; }
Result cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads, size_t shared) { (void)function, (void)threads, (void)shared; *blocks = 2; return 0; }
Result cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int threads, size_t shared, unsigned flags) { (void)flags; return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared); }
Result cudaLaunchKernel(const void *function, Size grid, Size block, void **arguments, size_t shared, void *stream) {
  (void)function, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  CONTEXT;
  return done(cuLaunchKernel());
}
Result cudaLaunchKernelExC(const void *config, const void *function, void **arguments) { (void)config, (void)function, (void)arguments; CONTEXT; return done(cuLaunchKernel()); }
/* What nvcc compiles a launch to. */
unsigned __cudaPushCallConfiguration(Size grid, Size block, size_t shared, void *stream) {
  pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
  return 0;
}
Result __cudaPopCallConfiguration(Size *grid, Size *block, size_t *shared, void **stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *stream = pushed.stream;
  return 0;
}
Result __cudaGetKernel(const void **kernel, const void *function) { *kernel = function; return 0; }
Result __cudaLaunchKernel(const void *kernel, Size grid, Size block, void **arguments, size_t shared, void *stream) { return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream); }

Result cudaGetDriverEntryPoint(const char *name, void **function, uint64_t flags, int *status) {
  (void)flags;
  void *library = dlopen("libcuda.so.1", RTLD_LAZY);
  char newer[128];
  snprintf(newer, sizeof newer, "%s_v2", name);
  *function = library ? dlsym(library, newer) : NULL;
  if (library && !*function) *function = dlsym(library, name);
  if (status) *status = !*function; /* cudaDriverEntryPointSymbolNotFound */
  return 0;
}
Result cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, uint64_t flags, int *status) { (void)version; return cudaGetDriverEntryPoint(name, function, flags, status); }
