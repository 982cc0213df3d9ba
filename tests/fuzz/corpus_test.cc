// Replays what the fuzzers start from, and what they once broke, through the same readers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "readers.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

int Replay(const char* folder, void (*reader)(absl::string_view)) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceFolder() / "tests/fuzz/corpus" / folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    reader(text.str());
    ++files;
  }
  return files;
}

TEST(FuzzCorpus, TimetableCsvKeepsItsPromises) {
  EXPECT_GE(Replay("timetable_csv", TryTimetableCsv), 10);
}

TEST(FuzzCorpus, CostsJsonKeepsItsPromises) { EXPECT_GE(Replay("costs_json", TryCostsJson), 10); }

TEST(FuzzCorpus, SettingsKeepTheirPromises) { EXPECT_GE(Replay("settings", TrySettings), 10); }

TEST(FuzzCorpus, ModelConfigKeepsItsPromises) {
  EXPECT_GE(Replay("model_config", TryModelConfig), 10);
}

TEST(FuzzCorpus, ProfileGraphKeepsItsPromises) {
  EXPECT_GE(Replay("profile_graph", TryProfileGraph), 8);
}

TEST(FuzzCorpus, ProfileKeepsItsPromises) { EXPECT_GE(Replay("profile", TryProfile), 4); }

TEST(FuzzCorpus, AlgorithmsKeepTheirPromises) { EXPECT_GE(Replay("algorithms", TryAlgorithms), 5); }
TEST(FuzzCorpus, DeviceKeepsItsPromises) { EXPECT_GE(Replay("device", TryDevice), 4); }

TEST(FuzzCorpus, ClusterKeepsItsPromises) { EXPECT_GE(Replay("cluster", TryCluster), 6); }

TEST(FuzzCorpus, MeasuredStepsKeepTheirPromises) {
  EXPECT_GE(Replay("measured_steps", TryMeasuredSteps), 6);
}

TEST(FuzzCorpus, PlanKeepsItsPromises) { EXPECT_GE(Replay("plan", TryPlan), 4); }

TEST(FuzzCorpus, PartitionKeepsItsPromises) { EXPECT_GE(Replay("partition", TryPartition), 6); }

TEST(FuzzCorpus, CheckpointKeepsItsPromises) { EXPECT_GE(Replay("checkpoint", TryCheckpoint), 12); }

TEST(FuzzCorpus, ShardIndexKeepsItsPromises) { EXPECT_GE(Replay("shard_index", TryShardIndex), 8); }

TEST(FuzzCorpus, TokenizerKeepsItsPromises) { EXPECT_GE(Replay("tokenizer", TryTokenizer), 8); }

TEST(FuzzCorpus, JsonLinesKeepTheirPromises) { EXPECT_GE(Replay("json_lines", TryJsonLines), 6); }

TEST(FuzzCorpus, TokenFileKeepsItsPromises) { EXPECT_GE(Replay("token_file", TryTokenFile), 5); }

TEST(FuzzCorpus, MegatronIndexKeepsItsPromises) {
  EXPECT_GE(Replay("megatron_index", TryMegatronIndex), 5);
}

TEST(FuzzCorpus, ChatTemplateKeepsItsPromises) {
  EXPECT_GE(Replay("chat_template", TryChatTemplate), 10);
}

TEST(FuzzCorpus, EventFileKeepsItsPromises) { EXPECT_GE(Replay("event_file", TryEventFile), 6); }

TEST(FuzzCorpus, GreetingKeepsItsPromises) { EXPECT_GE(Replay("greeting", TryGreeting), 12); }

}  // namespace
}  // namespace sluice
