#ifndef SLUICE_PYTHON_BINDINGS_INTERRUPTIBLE_H_
#define SLUICE_PYTHON_BINDINGS_INTERRUPTIBLE_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

namespace sluice::python {

// Calls work(stop) on a thread of its own, without the interpreter's lock, and returns what it
// returns. Meanwhile other Python threads run, and this one looks for signals: after Ctrl-C, `stop`
// answers true, and KeyboardInterrupt is raised as soon as the work has ended.
template <typename Work>
auto Interruptible(Work work) {
  constexpr std::chrono::milliseconds kLook(20);
  std::atomic<bool> stopped = false;
  const auto stop = [&stopped] { return stopped.load(std::memory_order_relaxed); };
  bool interrupted = false;
  auto result = std::async(std::launch::async, [&work, &stop] { return work(stop); });
  {
    const pybind11::gil_scoped_release release;
    while (result.wait_for(kLook) != std::future_status::ready) {
      if (interrupted) continue;
      const pybind11::gil_scoped_acquire acquire;
      interrupted = PyErr_CheckSignals() != 0;
      stopped = interrupted;
    }
  }
  if (interrupted) throw pybind11::error_already_set();
  return result.get();
}

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_BINDINGS_INTERRUPTIBLE_H_
