// The record of a GPU's launches (models/kernels/record) against the launchers themselves: each call
// makes as many as are recorded for it.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/kernels/cuda/functions.h"
#include "models/kernels/record/recorded_kernels.h"
#include "models/kernels/record/shared_launches.h"
#include "tests/models/kernels/cuda_emulation/launches_seen.h"
#include "tests/models/kernels/kernels_under_test.h"

namespace sluice {
namespace {

constexpr DType kBF16 = DType::kBFloat16;

// Zeros for every tensor of a call; those that are written are zeros of one more buffer each.
class LaunchesTest : public testing::Test {
 protected:
  template <class T = void>
  T* In() {
    return static_cast<T*>(static_cast<void*>(zeros_.data()));
  }
  template <class T = void>
  T* Out() {
    buffers_.emplace_back(kBytes / sizeof(double));
    return static_cast<T*>(static_cast<void*>(buffers_.back().data()));
  }

  int Recorded() {
    int launches = 0;
    for (const KernelLaunch& launch : record_.Take()) launches += launch.launches;
    return launches;
  }
  // call(kernels): as many launches by both tables.
  template <class Call>
  void ExpectSame(const char* what, const Call& call) {
    SCOPED_TRACE(what);
    const int before = emulation::LaunchesSeen();
    call(KernelsUnderTest());
    const int seen = emulation::LaunchesSeen() - before;
    call(RecordedKernels());
    EXPECT_EQ(Recorded(), seen);
    buffers_.clear();
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  std::vector<double> zeros_ = std::vector<double>(kBytes / sizeof(double));
  std::vector<std::vector<double>> buffers_;
  LaunchRecord record_;
};

TEST_F(LaunchesTest, OfNorms) {
  for (const bool whole : {false, true}) {
    const void* const residual = whole ? In() : nullptr;
    ExpectSame("layer norm", [&](const Kernels& k) {
      k.layer_norm_forward({}, kBF16, 40, 64, 1e-5f, In(), In<float>(), In<float>(), Out(),
                           Out<float>(), Out<float>());
      k.layer_norm_backward({}, kBF16, 40, 64, In(), In(), In<float>(), In<float>(), In<float>(),
                            residual, Out(), whole ? Out<float>() : nullptr, Out());
    });
    ExpectSame("RMS norm", [&](const Kernels& k) {
      k.rms_norm_forward({}, kBF16, 40, 64, 1e-5f, 0, In(), In<float>(), residual, Out(),
                         Out<float>());
      k.rms_norm_backward({}, kBF16, 40, 64, 0, In(), In(), In<float>(), In<float>(), residual,
                          Out(), whole ? Out<float>() : nullptr, Out());
    });
  }
}

TEST_F(LaunchesTest, OfMaps) {
  constexpr int64_t kValues = 1000;
  for (const Activation activation : {Activation::kNone, Activation::kGelu, Activation::kSilu}) {
    ExpectSame("activation", [&](const Kernels& k) {
      k.activation_forward({}, kBF16, activation, kValues, In(), Out());
    });
    ExpectSame("activation, backward", [&](const Kernels& k) {
      k.activation_backward({}, kBF16, activation, kValues, In(), In(), Out());
    });
    ExpectSame("activation, backward in place", [&](const Kernels& k) {
      void* const dx = Out();
      k.activation_backward({}, kBF16, activation, kValues, In(), dx, dx);
    });
    ExpectSame("gate", [&](const Kernels& k) {
      k.gated_forward({}, kBF16, activation, kValues, In(), In(), Out());
      k.gated_backward({}, kBF16, activation, kValues, In(), In(), In(), Out(), Out());
    });
  }
  ExpectSame("nothing", [&](const Kernels& k) {
    k.activation_forward({}, kBF16, Activation::kGelu, 0, In(), Out());
    k.gated_forward({}, kBF16, Activation::kGelu, 0, In(), In(), Out());
    k.soft_cap({}, kBF16, 0, 1, Out());
    const AddedTensor empty = {.n = 0, .values = In<float>(), .sums = Out<float>()};
    k.accumulate({}, {&empty, 1}, true);
    k.accumulate({}, {}, true);
    k.copy({}, Out(), In(), 0);
  });
  ExpectSame("others", [&](const Kernels& k) {
    k.soft_cap({}, kBF16, kValues, 1, Out());
    k.dropout({}, kBF16, kValues, {}, In(), nullptr, Out());
    k.scale({}, kBF16, kValues, 2, Out());
    k.copy({}, Out(), In(), kValues);
    k.all_finite({}, kBF16, kValues, In(), Out<bool>());
  });
  for (const bool add : {false, true}) {
    for (const size_t count : {1, 128, 129}) {  // of the latter, one launch has no room for all
      ExpectSame("accumulate", [&](const Kernels& k) {
        const std::vector<AddedTensor> tensors(count, {8, In<float>(), Out<float>()});
        k.accumulate({}, tensors, add);
      });
    }
  }
}

TEST_F(LaunchesTest, OfColumnSums) {
  for (const size_t count : {1, 16, 17}) {  // of the latter, one launch has no room for all
    for (const int64_t rows : {0, 100}) {
      for (const int64_t columns : {0, 40}) {
        ExpectSame("column sums", [&](const Kernels& k) {
          const std::vector<SummedColumns> tensors(count, {rows, columns, In(), Out<float>()});
          k.column_sums({}, kBF16, tensors, true, Out());
        });
      }
    }
  }
}

TEST_F(LaunchesTest, OfRotaryPositions) {
  for (const int64_t pairs : {32, 300}) {  // of the latter, one launch has no room for all
    ExpectSame("table",
               [&](const Kernels& k) { k.rope_table({}, 8, pairs, In<float>(), 1, Out<float>()); });
  }
  ExpectSame("turn", [&](const Kernels& k) {
    k.rope({}, {.rows = 8, .seq = 8, .heads = 2, .width = 16, .stride = 32, .dtype = kBF16},
           In<float>(), nullptr, false, Out());
  });
  for (const int64_t width : {16, 514}) {  // the latter is more than a warp holds
    for (const int64_t rows : {0, 8}) {
      const RopeShape shape = {
          .rows = rows, .seq = 8, .heads = 2, .width = width, .stride = 2 * width, .dtype = kBF16};
      for (const bool sums : {false, true}) {
        ExpectSame("norm and turn", [&](const Kernels& k) {
          k.rms_norm_rope_forward({}, shape, 1e-5f, 0, In(), In<float>(), In<float>(), nullptr,
                                  Out(), Out<float>());
          k.rms_norm_rope_backward({}, shape, 0, Out(), In(), In<float>(), In<float>(), In<float>(),
                                   nullptr, Out(), sums ? Out<float>() : nullptr, Out());
        });
      }
    }
  }
}

TEST_F(LaunchesTest, OfAttentionWithACache) {
  for (const int64_t first : {0, 300}) {
    ExpectSame("cache", [&](const Kernels& k) {
      const AttentionShape shape = {.batch = 1,
                                    .seq = 3,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 8,
                                    .q_stride = 32,
                                    .kv_stride = 16,
                                    .dtype = kBF16};
      k.attend_cached({}, shape, 400, first, {.q = In(), .k = In(), .v = In()}, Out(), Out(),
                      Out());
    });
  }
}

// Of few rows and of so many that sorted tiles are merged.
TEST_F(LaunchesTest, OfAnEmbedding) {
  for (const int64_t rows : {100, 2100}) {
    for (const bool accumulate : {false, true}) {
      for (const bool documents : {false, true}) {
        const int32_t* const starts = documents ? In<int32_t>() : nullptr;
        for (const bool positions : {false, true}) {
          ExpectSame("embedding", [&](const Kernels& k) {
            k.embedding_forward({}, kBF16, In<int32_t>(), starts, rows, 50, 8, 1, kBF16, In(),
                                positions ? In() : nullptr, Out());
            k.embedding_backward({}, kBF16, In<int32_t>(), starts, rows, 50, 8, 20, 60, 1, In(),
                                 Out<float>(), positions ? Out<float>() : nullptr, accumulate,
                                 Out());
          });
        }
      }
    }
  }
}

TEST_F(LaunchesTest, OfCrossEntropy) {
  for (const int64_t classes : {40, 60'000}) {  // the latter's rows are not kept
    for (const float scale : {0.0f, 1.0f}) {
      for (const bool loss : {false, true}) {
        ExpectSame("cross-entropy", [&](const Kernels& k) {
          k.cross_entropy({}, {.dtype = kBF16, .rows = 3, .classes = classes, .padding = 1}, Out(),
                          In<int32_t>(), scale, false, loss ? Out<double>() : nullptr,
                          loss ? Out<int64_t>() : nullptr, Out());
        });
      }
    }
  }
}

// With so many tensors that one launch has no room for all.
TEST_F(LaunchesTest, OfAStepsEnd) {
  for (const size_t count : {1, 64, 65, 128, 130}) {
    std::vector<OptimizerTensor> tensors(count);
    for (OptimizerTensor& tensor : tensors) {
      tensor.n = 5;
      tensor.weight = In();
      tensor.low_halves = In<uint16_t>();
      tensor.gradient = In<float>();
      tensor.moment1 = In<float>();
      tensor.moment2 = In<float>();
    }
    tensors.back().n = count == 65 ? 0 : 5;
    std::vector<GroupedSum> rows(count, {.n = 1, .values = In<double>(), .sums = In<double>()});
    std::vector<SquaredTensor> squared(count, {5000, In<float>(), Out<double>()});
    squared.back().n = tensors.back().n;
    const std::vector<HashedTensor> hashed(count, {.data = In(), .bytes = 70'000});
    ExpectSame("end", [&](const Kernels& k) {
      k.block_squares({}, squared);
      k.add_in_groups({}, rows);
      k.adamw({}, {}, tensors);
      k.sgd({}, {}, tensors);
      k.hash({}, hashed, Out<uint64_t>(), Out<uint64_t>());
    });
  }
}

TEST_F(LaunchesTest, OfWhatProductsAreMadeOf) {
  const int before = emulation::LaunchesSeen();
  cuda::ToBFloat16({}, 100, In<float>(), Out());
  record::RoundToBFloat16(100);
  EXPECT_EQ(Recorded(), emulation::LaunchesSeen() - before);
}

}  // namespace
}  // namespace sluice
