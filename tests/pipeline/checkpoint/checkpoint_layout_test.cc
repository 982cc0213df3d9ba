// Which rank writes which bytes of a checkpoint.
#include "pipeline/checkpoint/saving/checkpoint_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "models/files/safetensors_header.h"
#include "models/files/shards.h"
#include "pipeline/state/rank_state.h"
#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

class CheckpointLayoutTest : public testing::TestWithParam<SmallRun> {};

TEST_P(CheckpointLayoutTest, EveryElementIsWrittenOnceByARankThatHasIt) {
  const RunPlan plan = MakePlan(GetParam());
  const std::vector<int> rank_of_layer = RankOfLayers(plan);
  std::vector<int> rank_of;  // [parameter]
  for (size_t layer = 0; layer < plan.layers.size(); ++layer)
    rank_of.insert(rank_of.end(), plan.layers[layer].parameters.size(), rank_of_layer[layer]);
  const std::vector<const ParameterDecl*> parameters = CanonicalParameters(plan);
  const auto files = LayOutCheckpoint(plan);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  for (const CheckpointFile& file : *files) {
    uint64_t end = file.head.size();
    std::map<std::pair<StateKind, int>, int64_t> written;  // elements of a tensor, so far
    for (const CheckpointPart& part : file.parts) {
      EXPECT_EQ(part.offset, end);
      EXPECT_GT(part.count, 0);
      end += static_cast<uint64_t>(part.count) * sizeof(float);
      int64_t& elements = written[{part.kind, part.parameter}];
      EXPECT_EQ(part.first, elements) << "in order";
      elements += part.count;
      const auto index = static_cast<size_t>(part.parameter);
      EXPECT_EQ(plan.pipeline_rank(part.owner), rank_of[index]);
      if (part.kind == StateKind::kWeight || plan.zero() == 0) continue;
      const auto replica = static_cast<size_t>(plan.replica(part.owner));
      EXPECT_EQ(part.first, plan.shards[index][replica]);
      EXPECT_EQ(part.first + part.count, plan.shards[index][replica + 1]);
    }
    EXPECT_EQ(file.bytes, end);
    for (const auto& [tensor, elements] : written)
      EXPECT_EQ(elements, ElementCount(parameters[static_cast<size_t>(tensor.second)]->shape));
    const auto header = ParseSafetensorsHeader(
        absl::string_view(file.head).substr(kSafetensorsLengthBytes), end - file.head.size());
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->entries.size(), written.size());
  }
}

// Files of at most so many bytes, which together have what one file has, in the same order, and an
// index that says where.
TEST_P(CheckpointLayoutTest, ShardsHaveAtMostTheirBytes) {
  const RunPlan plan = MakePlan(GetParam());
  const auto whole = LayOutCheckpoint(plan);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int64_t most : {1, 3000, 20'000, 100'000}) {
    const auto files = LayOutCheckpoint(plan, most);
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(files->back().name, "optimizer.safetensors");
    EXPECT_EQ(files->back().head, whole->back().head);
    EXPECT_EQ(files->back().bytes, whole->back().bytes);
    std::map<std::string, std::string> file_of;  // of each tensor
    std::vector<std::pair<int, int64_t>> parts;
    uint64_t total = 0;
    for (auto file = files->begin(); file != files->end() - 1; ++file) {
      if (file->parts.empty()) continue;
      const auto header =
          ParseSafetensorsHeader(absl::string_view(file->head).substr(kSafetensorsLengthBytes),
                                 file->bytes - file->head.size());
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_TRUE(header->entries.size() == 1 || file->bytes <= static_cast<uint64_t>(most));
      total += file->bytes - file->head.size();
      for (const TensorEntry& entry : header->entries) file_of[entry.name] = file->name;
      for (const CheckpointPart& part : file->parts) {
        parts.emplace_back(part.parameter, part.first + part.count);
      }
    }
    std::map<int, int64_t> elements;  // by parameter: where its last part ends
    std::map<int, int64_t> wanted;
    int last = -1;
    for (const auto& [parameter, end] : parts) {
      EXPECT_GE(parameter, last);
      last = parameter;
      elements[parameter] = end;
    }
    for (const CheckpointPart& part : whole->front().parts) {
      wanted[part.parameter] = part.first + part.count;
    }
    EXPECT_EQ(elements, wanted);
    if (files->size() == 2) continue;
    const CheckpointFile& index = files->end()[-2];
    EXPECT_EQ(index.name, "model.safetensors.index.json");
    EXPECT_EQ(index.bytes, index.head.size());
    const auto parsed = ParseShardIndex(index.head);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->weight_map, file_of);
    EXPECT_NE(index.head.find(absl::StrCat("\"total_size\": ", total, "\n")), std::string::npos);
  }
}

// Each replica writes as many elements as the others of what all of them have, and in one piece
// where the rank's layers are contiguous.
TEST_P(CheckpointLayoutTest, ReplicasShareTheWorkEvenly) {
  const RunPlan plan = MakePlan(GetParam());
  const auto files = LayOutCheckpoint(plan);
  ASSERT_TRUE(files.ok()) << files.status();
  for (const CheckpointFile& file : *files) {
    if (plan.zero() > 0 && file.parts.front().kind != StateKind::kWeight) continue;
    std::map<int, int64_t> elements;  // by rank
    for (const CheckpointPart& part : file.parts) elements[part.owner] += part.count;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      int64_t least = elements[rank];
      int64_t most = least;
      for (int replica = 1; replica < plan.replicas(); ++replica) {
        least = std::min(least, elements[replica * plan.ranks() + rank]);
        most = std::max(most, elements[replica * plan.ranks() + rank]);
      }
      EXPECT_LE(most - least, 1) << "rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs, CheckpointLayoutTest,
    testing::Values(SmallRun{.model = "wide_tied", .ranks = 1}, SmallRun{.model = "tied"},
                    SmallRun{.schedule = "interleaved", .chunks = 2, .replicas = 3},
                    SmallRun{.model = "wide_tied", .replicas = 3, .zero = 1},
                    SmallRun{.model = "wide", .replicas = 2, .zero = 2},
                    SmallRun{.model = "mlp", .optimizer = OptimizerKind::kSgd, .replicas = 2},
                    SmallRun{.schedule = "chimera", .chunks = 2}),
    [](const auto& run) { return run.param.Name(); });

}  // namespace
}  // namespace sluice
