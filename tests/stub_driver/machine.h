/* The machine that the stubs pretend to be. All of it comes from the environment:
 *
 * STUB_DEVICES  name,capability,MiB,UUID[,UUID of the GPU that a MIG instance is on] of each device, with ";" between them
 * STUB_DRIVER   the CUDA version of the driver as cuDriverGetVersion gives it (13020)
 * STUB_FAULTS   what calls do instead of answering, "cuInit=802;cuMemAlloc_v2=hang": a code, hang, or segv
 * STUB_LOG      a file that gets a line "PID PARENT'S-PID FUNCTION" of each call
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 16

typedef int Result;
typedef struct { char name[128], uuid[48], parent[48]; int major, minor, bus; size_t bytes; } Device;

static const char *setting(const char *name) { const char *value = getenv(name); return value ? value : ""; }

static int driver_version(void) { const char *value = setting("STUB_DRIVER"); return *value ? atoi(value) : 13020; }

static int read_devices(Device *into) {
  char *text = strdup(setting("STUB_DEVICES")), *rest = text, *row;
  int count = 0;
  while (count < MOST && (row = strsep(&rest, ";"))) {
    Device *device = &into[count];
    unsigned long mib = 0;
    memset(device, 0, sizeof *device);
    int fields = sscanf(row, "%127[^,],%d.%d,%lu,%47[^,],%47[^,]", device->name, &device->major, &device->minor, &mib, device->uuid, device->parent);
    if (fields < 5) continue;
    device->bytes = mib << 20;
    device->bus = ++count;
    for (int i = 0; i < count - 1; i++) if (*device->parent && !strcmp(into[i].parent, device->parent)) device->bus = into[i].bus;
  }
  free(text);
  return count;
}

/* The 16 bytes of "GPU-" or "MIG-" and 32 hexadecimal digits with dashes between them. */
static void uuid_bytes(const char *text, unsigned char *into) {
  int digits = 0;
  memset(into, 0, 16);
  for (text += 4; *text && digits < 32; text++) {
    int value = *text >= '0' && *text <= '9' ? *text - '0' : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10 : -1;
    if (value < 0) continue;
    into[digits / 2] |= value << (digits % 2 ? 0 : 4);
    digits++;
  }
}

/* Log the call; the code that it is to fail with, 0 if it is to answer. */
static Result enter(const char *function) {
  const char *log = setting("STUB_LOG");
  int file = *log ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
  if (file >= 0) {
    dprintf(file, "%d %d %s\n", getpid(), getppid(), function);
    close(file);
  }
  size_t length = strlen(function);
  for (const char *row = setting("STUB_FAULTS"); row && *row; row = strchr(row, ';') ? strchr(row, ';') + 1 : NULL) {
    if (strncmp(row, function, length) || row[length] != '=') continue;
    const char *what = row + length + 1;
    if (!strncmp(what, "hang", 4)) for (;;) pause();
    if (!strncmp(what, "segv", 4)) raise(SIGSEGV);
    return atoi(what);
  }
  return 0;
}
#define ENTER Result fault_ = enter(__func__); if (fault_) return fault_
