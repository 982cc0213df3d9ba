// Preloaded into a program, it steps the program's clocks by the numbers of seconds in two files,
// from the moment at which they exist. SLUICE_CLOCK_STEP names that of the wall clock, which `date --set` and
// NTP step while the steady clock goes on as it was. SLUICE_STEADY_STEP names that of the steady
// clock: for a process that is stopped meanwhile, the step is a pause of that length.
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

// Of the file that this variable names; 0 where there is none.
long Step(const char* variable) {
  const char* path = std::getenv(variable);
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "re");
  if (file == nullptr) return 0;
  long step = 0;
  if (std::fscanf(file, "%ld", &step) != 1) step = 0;
  std::fclose(file);
  return step;
}

// By how much the clock is ahead of the kernel's.
long StepOf(clockid_t clock) {
  if (clock == CLOCK_REALTIME) return Step("SLUICE_CLOCK_STEP");
  return clock == CLOCK_MONOTONIC ? Step("SLUICE_STEADY_STEP") : 0;
}

// A deadline of the stepped clock, for the kernel.
timespec ForKernel(clockid_t clock, timespec deadline) {
  deadline.tv_sec -= StepOf(clock);
  return deadline;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static auto* const original = Original<int(clockid_t, timespec*)>("clock_gettime");
  const int result = original(clock, time);
  time->tv_sec += StepOf(clock);
  return result;
}

extern "C" int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      const timespec* deadline) {
  static auto* const original =
      Original<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  const timespec real = ForKernel(CLOCK_REALTIME, *deadline);
  return original(condition, mutex, &real);
}

extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      clockid_t clock, const timespec* deadline) {
  static auto* const original =
      Original<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
          "pthread_cond_clockwait");
  const timespec real = ForKernel(clock, *deadline);
  return original(condition, mutex, clock, &real);
}
