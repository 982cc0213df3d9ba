#include "tools/standard_output.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ext/stdio_sync_filebuf.h>
#include <iostream>

#include "models/files/write_all.h"

namespace sluice {
namespace {

// As fopencookie's: the bytes that were written, or 0 where that is an error.
ssize_t Write(void* /*cookie*/, const char* bytes, size_t size) {
  const int error = WriteAllTo(STDOUT_FILENO, {bytes, size});
  if (error == 0) return static_cast<ssize_t>(size);
  errno = error;
  return 0;
}

}  // namespace

void WaitForReaders() {
  std::FILE* const waiting = fopencookie(
      nullptr, "w", {.read = nullptr, .write = Write, .seek = nullptr, .close = nullptr});
  if (waiting == nullptr) return;
  if (isatty(STDOUT_FILENO) != 0) std::setvbuf(waiting, nullptr, _IOLBF, BUFSIZ);
  stdout = waiting;
  // It stays, since std::cout is flushed when the program ends.
  std::cout.rdbuf(new __gnu_cxx::stdio_sync_filebuf<char>(waiting));
}

}  // namespace sluice
