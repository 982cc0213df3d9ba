#ifndef SLUICE_PIPELINE_RUN_TIMED_H_
#define SLUICE_PIPELINE_RUN_TIMED_H_

#include <chrono>

namespace sluice {

// Adds the seconds of its own life to `*seconds`.
class Timed {
 public:
  explicit Timed(double* seconds) : seconds_(*seconds) {}
  ~Timed() {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_;
    seconds_ += taken.count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_TIMED_H_
