#include "models/kernels/cuda/products/algorithm_race.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/device/cuda_error.h"
#include "models/kernels/cuda/launch_sizes.h"
#include "models/kernels/cuda/products/separate_memory.h"

namespace sluice::cuda {
namespace {

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 1e-3;  // at least, by one algorithm
constexpr int kMostRuns = 20;           // of one algorithm in a round
// The library's first algorithm stays unless another one is faster by more than clocks vary.
constexpr double kLeastGain = 1.01;
// Tensors take turns, since in a step a product finds little of its tensors in the cache: H200 has
// 60 MiB.
constexpr int64_t kSpread = int64_t{192} << 20;
constexpr int64_t kMostSets = 8;
constexpr size_t kPattern = size_t{1} << 20;
constexpr double kNever = std::numeric_limits<double>::infinity();

int64_t Aligned(int64_t bytes) {
  constexpr auto kStep = static_cast<int64_t>(kScratchAlignment);
  return CeilDiv(bytes, kStep) * kStep;
}

// A product's tensors, one behind the other.
struct Places {
  explicit Places(const MatmulShape& s)
      : b(Aligned(s.a_elements() * SizeOf(s.in))),
        d(b + Aligned(s.k * s.n * SizeOf(s.in))),
        aux(d + Aligned(s.m * s.n * SizeOf(s.out))),
        bias(aux + (s.epilogue == Epilogue::kDGelu ? Aligned(s.m * s.n * SizeOf(s.out)) : 0)),
        bytes(bias + (s.epilogue == Epilogue::kBias ? Aligned(s.n * SizeOf(s.out)) : 0)) {}

  const int64_t b, d, aux, bias, bytes;  // a is at 0
};

struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
template <class Handle, class Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

// Numbers as activations have them, small and of both signs: a GPU multiplies zeros faster. Read as
// fp32, two neighbours are such a number, too.
std::vector<uint16_t> Pattern() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-0.1f, 0.1f);
  std::vector<uint16_t> values(kPattern / sizeof(uint16_t));
  for (uint16_t& value : values) {
    uint32_t bits = 0;
    const float drawn = uniform(random);
    std::memcpy(&bits, &drawn, sizeof(bits));
    value = static_cast<uint16_t>(bits >> 16U);
  }
  return values;
}

class Race {
 public:
  Race(const MatmulShape& shape, const MatmulPlan& plan)
      : shape_(shape), plan_(plan), places_(shape) {}

  absl::Status Prepare() {
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    absl::Status status =
        CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    stream_.reset(stream);
    status.Update(CudaStatus(cudaEventCreate(&begin), "making an event"));
    begin_.reset(begin);
    status.Update(CudaStatus(cudaEventCreate(&end), "making an event"));
    end_.reset(end);
    if (!status.ok()) return status;
    sets_ = std::clamp<int64_t>(kSpread / places_.bytes, 1, kMostSets);
    const int64_t bytes = static_cast<int64_t>(kMatmulScratch) + sets_ * places_.bytes;
    absl::StatusOr<SeparateMemory> memory =
        AllocateSeparately(static_cast<size_t>(bytes), "measuring a product");
    if (!memory.ok()) return memory.status();
    memory_ = *std::move(memory);
    return Fill(bytes);
  }

  // Of one product, by `runs` of them; kNever where the algorithm does not run.
  absl::StatusOr<double> Seconds(const cublasLtMatmulAlgo_t& algorithm, int runs) {
    absl::Status status = CudaStatus(cudaEventRecord(begin_.get(), stream_.get()), "an event");
    for (int run = 0; run < runs && status.ok(); ++run) {
      if (!plan_.Run(algorithm, shape_.adds, TensorsOf(run % sets_), memory_.get(), stream_.get())
               .ok()) {
        return kNever;
      }
    }
    status.Update(CudaStatus(cudaEventRecord(end_.get(), stream_.get()), "an event"));
    status.Update(CudaStatus(cudaStreamSynchronize(stream_.get()), "measuring a product"));
    float milliseconds = 0;
    if (status.ok()) {
      status = CudaStatus(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
                          "measuring a product");
    }
    if (!status.ok()) return status;
    return static_cast<double>(milliseconds) / 1e3 / runs;
  }

 private:
  absl::Status Fill(int64_t bytes) {
    const std::vector<uint16_t> pattern = Pattern();
    absl::Status status;
    for (int64_t at = 0; at < bytes && status.ok(); at += static_cast<int64_t>(kPattern)) {
      const size_t length = std::min(kPattern, static_cast<size_t>(bytes - at));
      status = CudaStatus(cudaMemcpyAsync(memory_.get() + at, pattern.data(), length,
                                          cudaMemcpyHostToDevice, stream_.get()),
                          "filling matrices");
    }
    // The pattern goes away.
    status.Update(CudaStatus(cudaStreamSynchronize(stream_.get()), "filling matrices"));
    return status;
  }

  MatmulTensors TensorsOf(int64_t set) const {
    std::byte* const at = memory_.get() + kMatmulScratch + set * places_.bytes;
    return OnlyThoseOf(shape_, {.a = at,
                                .b = at + places_.b,
                                .c = at + places_.d,
                                .d = at + places_.d,
                                .bias = at + places_.bias,
                                .aux = at + places_.aux});
  }

  const MatmulShape shape_;
  const MatmulPlan& plan_;
  const Places places_;
  int64_t sets_ = 1;
  Owned<cudaStream_t, DestroyStream> stream_;
  Owned<cudaEvent_t, DestroyEvent> begin_, end_;
  SeparateMemory memory_;
};

}  // namespace

absl::StatusOr<RaceResult> FastestOf(absl::Span<const cublasLtMatmulAlgo_t> algorithms,
                                     const MatmulShape& shape, const MatmulPlan& plan) {
  Race race(shape, plan);
  if (absl::Status status = race.Prepare(); !status.ok()) return status;
  std::vector<double> least(algorithms.size(), kNever);
  int runs = 1;
  // The first two rounds load kernels and find out how many runs are worth measuring.
  for (int round = -2; round < kRounds; ++round) {
    for (size_t i = 0; i < algorithms.size(); ++i) {
      if (round > -2 && least[i] == kNever) continue;
      const absl::StatusOr<double> seconds = race.Seconds(algorithms[i], runs);
      if (!seconds.ok()) return seconds.status();
      least[i] = round <= 0 ? *seconds : std::min(least[i], *seconds);
    }
    const double quickest = *std::min_element(least.begin(), least.end());
    if (round < 0 && quickest > 0 && quickest < kNever) {
      runs = static_cast<int>(
          std::clamp(std::ceil(kRoundSeconds / quickest), 1.0, static_cast<double>(kMostRuns)));
    }
  }
  const size_t best =
      static_cast<size_t>(std::min_element(least.begin(), least.end()) - least.begin());
  if (least[best] == kNever) {
    return absl::InternalError(absl::StrCat("none of ", algorithms.size(),
                                            " algorithms of cuBLASLt runs a product that it "
                                            "offers them for"));
  }
  const size_t chosen = least[0] <= kLeastGain * least[best] ? 0 : best;
  return RaceResult{.algorithm = algorithms[chosen],
                    .seconds = least[chosen],
                    .first_seconds = least[0] == kNever ? least[chosen] : least[0]};
}

}  // namespace sluice::cuda
