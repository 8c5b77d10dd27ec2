/* A fake libcuda.so.1. cc -shared -fPIC -o DIR/libcuda.so.1 fake_cuda.c
 * FAKE_CUDA: the code of cuInit (0, 34, 100, 101, 802, 803, 804, 999 …), or hang, segv, exit (in cuInit), early (segv in cuDriverGetVersion). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
static const char *mode(void) { const char *v = getenv("FAKE_CUDA"); return v && *v ? v : "0"; }
static R result(void) { return atoi(mode()); }

R cuDriverGetVersion(int *v) { if (!strcmp(mode(), "early")) raise(SIGSEGV); *v = 13000; return result() == 34 ? 34 : 0; }
R cuInit(unsigned flags) {
  (void)flags;
  if (!strcmp(mode(), "hang")) for (;;) pause();
  if (!strcmp(mode(), "segv")) raise(SIGSEGV);
  if (!strcmp(mode(), "exit")) _exit(7);
  return result();
}
R cuDeviceGetCount(int *n) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (result()) return result() == 34 ? 34 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
  *n = visible && !*visible ? 0 : 2;
  return 0;
}
R cuDeviceGet(int *d, int i) { *d = i; return 0; }
R cuDeviceGetName(char *b, int n, int d) { (void)d; strncpy(b, "NVIDIA H100 80GB HBM3", n); return 0; }
R cuDeviceGetAttribute(int *v, int a, int d) { (void)d; *v = a == 75 ? 9 : 0; return 0; }
R cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = 81559ul << 20; return 0; }
R cuDeviceGetUuid(unsigned char *b, int d) { for (int i = 0; i < 16; i++) b[i] = i + d; return 0; }
