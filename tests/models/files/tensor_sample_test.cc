#include "models/files/tensor_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/models/files/write_safetensors.h"

namespace sluice {
namespace {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class SampleTensorsTest : public ::testing::Test {
 protected:
  ~SampleTensorsTest() override { std::filesystem::remove(path_); }

  // Of a file of these tensors.
  uint64_t Sample(const std::vector<Tensor>& tensors) const {
    std::vector<TensorSource> sources;
    for (const Tensor& tensor : tensors)
      sources.push_back({tensor.name, tensor.shape, tensor.values.data()});
    EXPECT_TRUE(WriteSafetensors(path_, sources, {}).ok());
    const auto file = SafetensorsFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    const absl::StatusOr<uint64_t> sample = SampleTensors(**file);
    EXPECT_TRUE(sample.ok()) << sample.status();
    return sample.value_or(0);
  }

  static std::vector<Tensor> Some() {
    std::vector<Tensor> tensors = {{"a", {64, 50}, {}}, {"b", {7}, {}}, {"none", {0, 3}, {}}};
    for (Tensor& tensor : tensors) {
      const int64_t count = std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1},
                                            std::multiplies<>());
      for (int64_t i = 0; i < count; ++i)
        tensor.values.push_back(static_cast<float>(i) / static_cast<float>(count));
    }
    return tensors;
  }

  const std::string path_ = absl::StrCat(testing::TempDir(), "tensor_sample_", getpid());
};

TEST_F(SampleTensorsTest, IsTheSameInAnyOrder) {
  std::vector<Tensor> tensors = Some();
  const uint64_t sample = Sample(tensors);
  std::swap(tensors[0], tensors[1]);
  EXPECT_EQ(Sample(tensors), sample);
}

TEST_F(SampleTensorsTest, IsAnotherWithAnotherNameShapeOrValue) {
  std::vector<uint64_t> samples = {Sample(Some())};
  const auto add = [&](const std::function<void(std::vector<Tensor>&)>& change) {
    std::vector<Tensor> tensors = Some();
    change(tensors);
    samples.push_back(Sample(tensors));
  };
  add([](std::vector<Tensor>& tensors) { tensors[1].name = "c"; });
  add([](std::vector<Tensor>& tensors) { tensors[0].shape = {50, 64}; });
  add([](std::vector<Tensor>& tensors) { tensors[2].shape = {3, 0}; });
  add([](std::vector<Tensor>& tensors) { tensors.pop_back(); });
  // The first and the last value that are read of a large tensor, and one of a small.
  add([](std::vector<Tensor>& tensors) { tensors[0].values[(3200 - kSampledValues) / 2] += 1; });
  add([](std::vector<Tensor>& tensors) {
    tensors[0].values[(3200 - kSampledValues) / 2 + kSampledValues - 1] += 1;
  });
  add([](std::vector<Tensor>& tensors) { tensors[1].values[6] += 1; });
  // The values of two tensors that have changed places.
  add([](std::vector<Tensor>& tensors) {
    tensors.push_back({"d", {7}, std::vector<float>(7, 1.0F)});
  });
  add([](std::vector<Tensor>& tensors) {
    tensors.push_back({"d", {7}, tensors[1].values});
    tensors[1].values.assign(7, 1.0F);
  });
  for (size_t i = 0; i < samples.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(samples[i], samples[j]) << i << " and " << j;
  }
}

}  // namespace
}  // namespace sluice
