#ifndef SLUICE_TESTS_PIPELINE_CHECKPOINT_CHECKPOINT_FIXTURE_H_
#define SLUICE_TESTS_PIPELINE_CHECKPOINT_CHECKPOINT_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/checkpoint/save_tensors.h"

namespace sluice {

inline RunState SomeState(int64_t step) {
  RunState state;
  state.step = step;
  state.seed = 0xfedcba9876543210;
  state.model = {"tiny", MlpConfig{{6, 5, 3}}};
  state.optimizer = "adamw";
  state.hyper_parameters = {{"lr", 1e-3}, {"beta2", 0.95}, {"third", 1.0 / 3}};
  state.micro_batch_size = 4;
  state.micro_batches = 8;
  state.sum_order = "2,0,1";
  state.adaptation = "freeze *.bias";
  state.base = "/models/\"base\"";
  state.base_hash = "0123456789abcdef";
  state.updates = "pipedream";
  state.partition = "0-1,2-2";
  state.head_rows = 48;
  state.seq = 256;
  state.dtype = DType::kBFloat16;
  state.data_path = "/data/a \"text\".txt";
  state.data_fingerprint = "text:10:00ff";
  state.more = R"({"z":[1,2.5,null],"a":{"b":"c"}})";
  return state;
}

// Saves small checkpoints with the writer that runs use: step N, with values that depend on N, in a
// folder that lives as long as the test.
class CheckpointTest : public ::testing::Test {
 protected:
  std::string Save(int64_t step, int keep = kCheckpointsKept) {
    const absl::StatusOr<std::string> path = TrySave(SomeState(step), keep);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.value_or("");
  }

  absl::StatusOr<std::string> TrySave(const RunState& state, int keep = kCheckpointsKept) {
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(i) / 3 + static_cast<float>(state.step);
    }
    return SaveTensors(dir_, state,
                       {{"a.weight", {5, 6}, values_.data()}, {"a.bias", {5}, values_.data() + 30}},
                       {{"a.weight.m", {5, 6}, values_.data() + 35}}, keep, shard_bytes_);
  }

  // Opens `path`, which must have step `step` with the values that Save wrote.
  static void ExpectStep(const std::string& path, int64_t step) {
    const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->state.step, step);
    std::vector<float> values(65);
    ASSERT_TRUE(ReadTensors(*checkpoint->weights, {{"a.bias", {5}, values.data() + 30},
                                                   {"a.weight", {5, 6}, values.data()}})
                    .ok());
    ASSERT_TRUE(
        ReadTensors(*checkpoint->optimizer, {{"a.weight.m", {5, 6}, values.data() + 35}}).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(i) / 3 + static_cast<float>(step));
    }
  }

  // The error of opening `path`.
  static std::string Error(const std::string& path, absl::StatusCode code) {
    const absl::Status status = OpenCheckpoint(path).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  static std::vector<std::string> NamesIn(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // The names in the directory, without `.sluice`, which every save makes.
  std::vector<std::string> Names() const {
    std::vector<std::string> names = NamesIn(dir_);
    std::erase(names, ".sluice");
    return names;
  }

  TempFolder folder_;
  std::string dir_ = folder_ / "run";
  std::vector<float> values_ = std::vector<float>(65);
  int64_t shard_bytes_ = kShardBytes;  // 1: each tensor has a file
};

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_CHECKPOINT_CHECKPOINT_FIXTURE_H_
