// Signals that come while a product is computed (kernel_threads.h).
#include <gtest/gtest.h>
#include <sys/time.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "models/kernels/kernel_threads.h"
#include "models/kernels/kernels.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

std::atomic<int64_t> handled{0};

// Uses as much of its stack as a handler may.
void Handle(int /*signal*/) {
  volatile char used[4096];
  for (volatile char& byte : used) byte = 1;
  handled.fetch_add(used[0]);
}

// All three products of a layer.
class Products {
 public:
  Products(int64_t rows, int64_t in, int64_t out)
      : linear_(CpuKernels().make_linear({.rows = rows, .in = in, .out = out})),
        x_(DType::kFloat32, RandomMatrix(rows, in, 1)),
        dy_(DType::kFloat32, RandomMatrix(rows, out, 2)),
        weight_(DType::kFloat32, RandomMatrix(in, out, 3)),
        bias_(DType::kFloat32, RandomValues(out, 4)),
        y_(DType::kFloat32, dy_.size()),
        dx_(DType::kFloat32, x_.size()),
        dw_(DType::kFloat32, weight_.size()),
        packed_(linear_->packed_bytes()),
        forward_(linear_->forward_workspace()),
        input_grad_(linear_->input_grad_workspace()),
        weight_grad_(linear_->weight_grad_workspace()) {
    linear_->Pack({}, weight_.floats(), bias_.floats(), packed_.data());
  }

  std::vector<float> Compute() {
    linear_->Forward({}, x_.data(), weight_.floats(), packed_.data(), bias_.floats(), nullptr,
                     y_.data(), nullptr, forward_.data());
    linear_->BackwardInput({}, dy_.data(), weight_.floats(), packed_.data(), x_.data(), dx_.data(),
                           input_grad_.data());
    linear_->BackwardWeight({}, x_.data(), dy_.data(), dw_.floats(), false, weight_grad_.data());
    std::vector<float> all(y_.floats(), y_.floats() + y_.size());
    all.insert(all.end(), dx_.floats(), dx_.floats() + dx_.size());
    all.insert(all.end(), dw_.floats(), dw_.floats() + dw_.size());
    return all;
  }

 private:
  const std::unique_ptr<Linear> linear_;
  const Tensor x_, dy_;
  Tensor weight_, bias_, y_, dx_, dw_;
  Workspace packed_, forward_, input_grad_, weight_grad_;
};

// Sends SIGALRM again and again while there is one of these. By a timer, since on a busy machine a
// thread that sends signals has its turn only when the one that computes has not.
class SignalTimer {
 public:
  SignalTimer() { Set({.tv_sec = 0, .tv_usec = 50}); }
  ~SignalTimer() { Set({}); }
  SignalTimer(const SignalTimer&) = delete;
  SignalTimer& operator=(const SignalTimer&) = delete;

 private:
  static void Set(timeval interval) {
    const itimerval times = {.it_interval = interval, .it_value = interval};
    setitimer(ITIMER_REAL, &times, nullptr);
  }
};

TEST(Signals, DoNoHarmToProducts) {
  const KernelThreads one(1);
  struct sigaction action = {}, before = {};
  action.sa_handler = Handle;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &action, &before);
  int64_t wrong = 0;
  auto timer = std::make_unique<SignalTimer>();
  for (const auto& [in, out] : {std::pair(64, 192), std::pair(64, 64), std::pair(256, 64),
                                std::pair(64, 256), std::pair(70, 99)}) {
    Products products(128, in, out);
    const std::vector<float> first = products.Compute();
    for (const int64_t until = handled.load() + 2000; handled.load() < until;)
      wrong += products.Compute() == first ? 0 : 1;
  }
  timer.reset();
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice
