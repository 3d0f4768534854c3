/* The disk does not say that it has what was written, while the file that FAIL_SYNC names is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int failing(void) {
  const char *path = getenv("FAIL_SYNC");
  return path != NULL && access(path, F_OK) == 0;
}

static int sync_by(const char *name, int fd) {
  int (*real)(int) = dlsym(RTLD_NEXT, name);
  if (!failing()) return real(fd);
  errno = EIO;
  return -1;
}

int fsync(int fd) { return sync_by("fsync", fd); }
int fdatasync(int fd) { return sync_by("fdatasync", fd); }
