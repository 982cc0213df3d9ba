// Preloaded into a program, it steps the wall clock like `date --set` and NTP: by the number of
// seconds in the file named by SLUICE_CLOCK_STEP, from the moment at which that file exists. The
// steady clock is not changed.
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

// Declarations of the C library; glibc has them in <time.h> and <pthread.h>, with the names defined
// below.
template <typename Function>
Function* Original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

long Step() {
  const char* path = std::getenv("SLUICE_CLOCK_STEP");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "re");
  if (file == nullptr) return 0;
  long step = 0;
  if (std::fscanf(file, "%ld", &step) != 1) step = 0;
  std::fclose(file);
  return step;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static auto* const original = Original<int(clockid_t, timespec*)>("clock_gettime");
  const int result = original(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += Step();
  return result;
}

// The deadline is in stepped time; the kernel's clock is not stepped.
extern "C" int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      const timespec* deadline) {
  static auto* const original =
      Original<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  timespec real = *deadline;
  real.tv_sec -= Step();
  return original(condition, mutex, &real);
}
