#include "pipeline/checkpoint/files/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "tests/models/data/full_disk.h"
#include "tests/pipeline/checkpoint/checkpoint_fixture.h"
#include "tests/pipeline/checkpoint/forged_checkpoint.h"
#include "tests/sanitizers.h"

#ifdef SLUICE_THREAD_SANITIZER
// A test forks, and its child saves, which starts threads: ThreadSanitizer would end it unless told
// not to.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const char* const kFiles[] = {"model.safetensors", "config.json", "optimizer.safetensors",
                              "state.json"};

TEST_F(CheckpointTest, ComesBackAsItWasSaved) {
  const RunState saved = SomeState(100);
  EXPECT_EQ(Save(100), dir_ + "/step-00000100");
  for (const std::string& path :
       {dir_, dir_ + "/", dir_ + "/latest", dir_ + "/step-00000100", dir_ + "/step-00000100/"}) {
    ExpectStep(path, 100);
  }
  const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(dir_);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->path, dir_ + "/step-00000100");
  const RunState& state = checkpoint->state;
  EXPECT_EQ(state.seed, saved.seed);
  EXPECT_EQ(state.model.name, "tiny");
  ASSERT_NE(state.model.mlp(), nullptr);
  EXPECT_EQ(state.model.mlp()->widths, (std::vector<int>{6, 5, 3}));
  EXPECT_EQ(state.optimizer, saved.optimizer);
  EXPECT_EQ(state.hyper_parameters, saved.hyper_parameters);
  EXPECT_EQ(state.micro_batch_size, saved.micro_batch_size);
  EXPECT_EQ(state.micro_batches, saved.micro_batches);
  EXPECT_EQ(state.sum_order, saved.sum_order);
  EXPECT_EQ(state.updates, saved.updates);
  EXPECT_EQ(state.adaptation, saved.adaptation);
  EXPECT_EQ(state.base, saved.base);
  EXPECT_EQ(state.base_hash, saved.base_hash);
  EXPECT_FALSE(checkpoint->adapter_only);
  EXPECT_EQ(state.partition, saved.partition);
  EXPECT_EQ(state.seq, saved.seq);
  EXPECT_EQ(state.head_rows, saved.head_rows);
  EXPECT_EQ(state.dtype, saved.dtype);
  EXPECT_EQ(state.data_path, saved.data_path);
  EXPECT_EQ(state.data_fingerprint, saved.data_fingerprint);
  EXPECT_EQ(nlohmann::json::parse(state.more), nlohmann::json::parse(saved.more));
}

TEST_F(CheckpointTest, AnOlderStateLacksWhatCameLater) {
  std::string text = *FormatState(SomeState(1), {});
  ASSERT_EQ(SignState(text), text);
  for (const char* key :
       {"  \"sum_groups\"", "  \"sum_order\"", "  \"updates\"", "  \"adaptation\"",
        "  \"head_rows\"", "  \"base\"", "  \"base_hash\"", "  \"partition\""}) {
    const size_t line = text.find(key);
    ASSERT_NE(line, std::string::npos) << key;
    text.erase(line, text.find('\n', line) + 1 - line);
  }
  const absl::StatusOr<StateFile> file = ParseState(SignState(text));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->state.sum_order, "ascending");
  EXPECT_EQ(file->state.updates, "");
  EXPECT_EQ(file->state.adaptation, "");
  EXPECT_EQ(file->state.base_hash, "");
  EXPECT_EQ(file->state.partition, "");
  EXPECT_EQ(file->state.head_rows, 0);
  EXPECT_EQ(FormatState(file->state, {})->find("head_rows"), std::string::npos) << "as usual";
  EXPECT_EQ(file->state.seed, SomeState(1).seed);
}

TEST_F(CheckpointTest, KeepsTheDeepestThatItTakes) {
  RunState state = SomeState(4);
  state.more = "{\"a\":" + DeepJson(30) + "}";
  ASSERT_TRUE(TrySave(state).ok());
  const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(dir_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->state.more, state.more);
}

TEST_F(CheckpointTest, KeepsTheModelOfAGpt) {
  RunState state = SomeState(3);
  DecoderConfig config;
  config.layers = 2;
  config.hidden = 100;
  config.tied_head = true;
  config.norm_epsilon = 3e-6f;
  state.model = {"mine", config};
  ASSERT_TRUE(TrySave(state).ok());
  const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(dir_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const DecoderConfig* const read = checkpoint->state.model.decoder();
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->layers, 2);
  EXPECT_EQ(read->mlp_width(), 100);
  EXPECT_TRUE(read->tied_head);
  EXPECT_EQ(read->norm_epsilon, 3e-6f);
  EXPECT_EQ(checkpoint->state.model.name, "mine");
}

TEST_F(CheckpointTest, IsSelfContainedAndCanBeMoved) {
  Save(7);
  EXPECT_EQ(fs::read_symlink(dir_ + "/latest"), "step-00000007");
  fs::rename(dir_, folder_ / "elsewhere");
  ExpectStep(folder_ / "elsewhere", 7);
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (const int64_t step : {10, 20, 30, 40}) Save(step);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000030", "step-00000040"));
  ExpectStep(dir_, 40);
  Save(50, 3);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000030", "step-00000040", "step-00000050"));
  Save(60, 1);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000060"));
}

// A person resumed from step 10 and continued from there.
TEST_F(CheckpointTest, StepsOfAnAbandonedRunStayUntilOvertaken) {
  for (const int64_t step : {10, 50, 60}) Save(step, 9);
  Save(20);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000020", "step-00000050",
                                   "step-00000060"));
  ExpectStep(dir_, 20);
  Save(70);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000060", "step-00000070"));
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  Save(10);
  RunState again = SomeState(10);
  again.seed = 4;
  ASSERT_TRUE(TrySave(again).ok());
  EXPECT_EQ(OpenCheckpoint(dir_)->state.seed, 4u);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010"));
}

TEST_F(CheckpointTest, ClearsAwayWhatACrashLeft) {
  Save(10);
  const std::string own = dir_ + "/.sluice/";
  for (const char* folder : {"saving-0123456789ab/sub", "removing-00000000000f"}) {
    fs::create_directories(own + folder);
  }
  WriteBytes(own + "saving-0123456789ab/model.safetensors.tmp-1-0", "half");
  WriteBytes(own + "replaced.tmp-1-0", "half");
  WriteBytes(own + "given-up.tmp-1-0", "half");
  fs::create_symlink("step-00000020", own + "latest");
  // None of the names that saving uses.
  for (const char* name : {"saving-0123456789abc", "saving-0123456789AB", "saving", "notes"}) {
    WriteBytes(own + name, "kept");
  }
  ExpectStep(dir_, 10);
  Save(20);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000010", "step-00000020"));
  EXPECT_THAT(NamesIn(own), ElementsAre("format", "notes", "saving", "saving-0123456789AB",
                                        "saving-0123456789abc"));
}

// Waits until `latest` names another checkpoint than `name`; false after half a minute.
bool LatestMovesFrom(const std::string& dir, const fs::path& name) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (fs::read_symlink(dir + "/latest") == name) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// A process that only saves is killed at any moment after its first save; the checkpoint that
// `latest` leads to must always be complete. The test waits for that first save, not for a time, so
// that every round makes progress even on a very slow machine.
class KilledTest : public CheckpointTest, public ::testing::WithParamInterface<int64_t> {};

TEST_P(KilledTest, LatestIsWholeWheneverTheProcessIsKilled) {
  shard_bytes_ = GetParam();
  const auto begin = std::chrono::steady_clock::now();
  Save(1);
  const auto one_save = std::chrono::steady_clock::now() - begin;
  int64_t last = 1;
  for (int round = 0; round < 24; ++round) {
    const fs::path before = fs::read_symlink(dir_ + "/latest");
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int64_t step = last + 1;; ++step) TrySave(SomeState(step)).IgnoreError();
    }
    const bool moved = LatestMovesFrom(dir_, before);
    std::this_thread::sleep_for(one_save * (round % 12) / 6);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ASSERT_TRUE(moved) << "nothing saved in half a minute after step " << last;
    const absl::StatusOr<LoadedCheckpoint> checkpoint = OpenCheckpoint(dir_);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ASSERT_GT(checkpoint->state.step, last);
    last = checkpoint->state.step;
    ExpectStep(dir_, last);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, KilledTest, ::testing::Values(kShardBytes, 1),
                         [](const auto& param) { return param.param == 1 ? "Shards" : "One"; });

void OverwriteByte(const std::string& path, size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at)).put(byte);
  ASSERT_TRUE(file.flush().good());
}

// Of a checkpoint at `bad`, beside the good one at `good`.
void ExpectFlippedBytesAreDetected(const std::string& good, const std::string& bad,
                                   const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string file = absl::StrCat(bad, "/", name);
    const std::string whole = ReadBytes(file);
    ASSERT_FALSE(whole.empty());
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int flip : {1 << (at % 8), 0x20, 0xff}) {
        OverwriteByte(file, at, static_cast<char>(whole[at] ^ flip));
        const absl::Status status = OpenCheckpoint(bad).status();
        ASSERT_EQ(status.code(), kDataLoss) << file << " byte " << at << ": " << status;
        ASSERT_THAT(status.message(), HasSubstr(file + " is "));
        ASSERT_THAT(status.message(), HasSubstr("the newest good checkpoint is " + good));
      }
      OverwriteByte(file, at, whole[at]);
    }
  }
}

TEST_F(CheckpointTest, EveryFlippedByteIsDetectedAndTheFileNamed) {
  const std::string good = Save(10);
  const std::string bad = Save(20);
  ExpectFlippedBytesAreDetected(good, bad, {std::begin(kFiles), std::end(kFiles)});
  ExpectStep(dir_, 20);
}

TEST_F(CheckpointTest, ShardsComeBackAsOneFile) {
  shard_bytes_ = 1;
  const std::string folder = Save(10);
  EXPECT_THAT(NamesIn(folder),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                          "optimizer.safetensors", "state.json"));
  ExpectStep(dir_, 10);
  EXPECT_EQ(CheckFinite(*OpenCheckpoint(dir_)), absl::OkStatus());
  EXPECT_EQ(NewestGoodCheckpoint(dir_, 10), folder);
  EXPECT_EQ(NewestGoodCheckpoint(dir_, 9), folder);
  EXPECT_EQ(NewestGoodCheckpoint(dir_, 9, /*later_too=*/false), "");
  shard_bytes_ = kShardBytes;  // as a run does that goes on with a program of another limit
  Save(10);
  EXPECT_THAT(NamesIn(folder), ElementsAre("config.json", "model.safetensors",
                                           "optimizer.safetensors", "state.json"));
  ExpectStep(dir_, 10);
}

TEST_F(CheckpointTest, EveryFlippedByteOfAShardIsDetected) {
  shard_bytes_ = 1;
  const std::string good = Save(10);
  ExpectFlippedBytesAreDetected(good, Save(20),
                                {ShardName(1, 2), ShardName(2, 2), kWeightsIndexFile});
  fs::remove(dir_ + "/step-00000020/" + ShardName(2, 2));
  EXPECT_THAT(Error(dir_, kDataLoss), HasSubstr(ShardName(2, 2) + " is missing"));
}

// Whoever gives a checkpoint away can make its checksums right.
TEST_F(CheckpointTest, FilesElsewhereAreRefused) {
  shard_bytes_ = 1;
  const std::string folder = Save(10);
  Forge(folder, "state.json", "\"" + ShardName(2, 2) + "\"", "\"../x\"");
  EXPECT_THAT(Error(dir_, kInvalid),
              AllOf(HasSubstr(folder + "/state.json"), HasSubstr("\"../x\"")));
  Save(10);
  Forge(folder, "state.json", "\"" + ShardName(2, 2) + "\"", "\"config.json\"");
  EXPECT_EQ(OpenCheckpoint(dir_).status().code(), kInvalid);  // given twice
  Save(10);
  WriteBytes(folder + "/other", ReadBytes(folder + "/" + ShardName(2, 2)));
  Forge(folder, kWeightsIndexFile, ShardName(2, 2), "other");
  EXPECT_THAT(Error(dir_, kDataLoss), HasSubstr("state.json does not list other"));
}

TEST_F(CheckpointTest, KeepsTheFilesOfTheModelsFolder) {
  const std::string config = R"({"widths" : [6,5,3],
 "kept": 1e-05, "model_type": "mlp"})";
  const std::string tokens("\0\xff{not json", 11);
  const std::string tool_use = "additional_chat_templates/tool_use.jinja";
  ModelFiles files = {.origin = "/models/mine",
                      .texts = {{"config.json", config},
                                {"tokenizer.json", tokens},
                                {tool_use, "{{ tools }}"},
                                {"additional_chat_templates/rag.jinja", "{{ documents }}"}}};
  RunState state = SomeState(10);
  state.model_files = std::make_shared<const ModelFiles>(files);
  state.more = WithOrigin("{}", files.origin);
  const auto path = TrySave(state);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(ReadBytes(*path + "/config.json"), config);
  EXPECT_EQ(ReadBytes(*path + "/tokenizer.json"), tokens);
  EXPECT_EQ(ReadBytes(absl::StrCat(*path, "/", tool_use)), "{{ tools }}");
  WriteBytes(*path + "/merges.txt", "of another program");
  const auto checkpoint = OpenCheckpoint(dir_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto kept = KeptModelFiles(*checkpoint);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->origin, files.origin);
  EXPECT_EQ(kept->texts, files.texts);
  ModelFiles read;
  ASSERT_TRUE(AddKeptFiles(*path, &read).ok());
  ASSERT_TRUE(read.texts.erase("merges.txt"));
  read.texts["config.json"] = config;
  EXPECT_EQ(read.texts, files.texts);
  ExpectFlippedBytesAreDetected(Save(5), *path, {"tokenizer.json", tool_use});
}

TEST_F(CheckpointTest, EveryTruncatedOrMissingFileIsNamed) {
  const std::string folder = Save(10);
  for (const char* name : kFiles) {
    const std::string file = folder + "/" + name;
    const std::string whole = ReadBytes(file);
    for (size_t size = 0; size < whole.size(); size += 7) {
      WriteBytes(file, whole.substr(0, size));
      ASSERT_THAT(Error(dir_, kDataLoss), HasSubstr(file + " is "));
    }
    WriteBytes(file, whole + "x");
    EXPECT_THAT(Error(dir_, kDataLoss), HasSubstr(file + " is "));
    fs::remove(file);
    EXPECT_THAT(Error(dir_, kDataLoss),
                AllOf(HasSubstr(file + " is missing"), HasSubstr("no other good checkpoint")));
    WriteBytes(file, whole);
  }
}

TEST_F(CheckpointTest, NamesTheNewestGoodOne) {
  for (const int64_t step : {10, 20, 30, 40}) Save(step, 9);
  const auto damage = [&](const char* step) {
    WriteBytes(absl::StrCat(dir_, "/step-000000", step, "/config.json"), "{}");
  };
  damage("40");
  EXPECT_THAT(Error(dir_, kDataLoss),
              HasSubstr("newest good checkpoint is " + dir_ + "/step-00000030"));
  damage("30");
  EXPECT_THAT(Error(dir_ + "/latest", kDataLoss), HasSubstr("is " + dir_ + "/step-00000020"));
  EXPECT_THAT(Error(dir_ + "/step-00000030", kDataLoss),
              HasSubstr("is " + dir_ + "/step-00000020"));
  damage("10");  // nothing earlier is good, something later is
  EXPECT_THAT(Error(dir_ + "/step-00000010", kDataLoss),
              HasSubstr("is " + dir_ + "/step-00000020"));
  fs::remove_all(dir_ + "/step-00000040");
  EXPECT_THAT(Error(dir_, kDataLoss), AllOf(HasSubstr("step-00000040/state.json is missing"),
                                            HasSubstr("is " + dir_ + "/step-00000020")));
  fs::remove(dir_ + "/latest");
  EXPECT_THAT(Error(dir_, kNotFound), HasSubstr("is " + dir_ + "/step-00000020"));
}

TEST_F(CheckpointTest, SaysWhenThereIsNone) {
  EXPECT_THAT(Error(dir_, kNotFound), HasSubstr(dir_));
  fs::create_directories(dir_);
  EXPECT_THAT(Error(dir_, kNotFound), HasSubstr("expected a directory that --save wrote"));
  WriteBytes(dir_ + "/file", "x");
  EXPECT_THAT(Error(dir_ + "/file", kInvalid), HasSubstr("is not a directory"));
  EXPECT_THAT(Error("", kNotFound), HasSubstr("no checkpoint"));
}

TEST_F(CheckpointTest, RefusesWhatItCouldNotReadBack) {
  RunState state = SomeState(1);
  state.hyper_parameters["lr"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(TrySave(state).status().message(), HasSubstr("lr is nan"));
  state = SomeState(1);
  for (const std::string& more : {std::string(), std::string("[1]"), std::string("{"),
                                  "{\"a\": " + DeepJson(31) + "}", "{\"a\": " + DeepJson() + "}"}) {
    state.more = more;
    EXPECT_EQ(TrySave(state).status().code(), kInvalid) << more.substr(0, 80);
  }
  EXPECT_THAT(Names(), ElementsAre());
  WriteBytes(folder_ / "file", "x");
  dir_ = folder_ / "file";
  EXPECT_THAT(TrySave(SomeState(1)).status().message(), HasSubstr(dir_));
}

// Whoever gives a checkpoint away can make its checksums right.
TEST_F(CheckpointTest, DeepJsonIsRefused) {
  const std::pair<const char*, const char*> places[] = {
      {"state.json", "\"sluice checkpoint 1\""},
      {"state.json", "\"adamw\""},
      {"state.json", "\"third\": "},
      {"state.json", "\"z\": "},
      {"config.json", "\"mlp\""},
      {"config.json", "\"widths\": "},
  };
  for (const auto& [file, place] : places) {
    // A folder whose `format` was replaced is not a checkpoint of ours, so saving may not replace
    // it.
    std::filesystem::remove_all(dir_);
    const std::string folder = Save(10);
    const bool is_key = absl::string_view(place).back() == ' ';
    Forge(folder, file, place, is_key ? absl::StrCat(place, DeepJson(), ", \"x\": ") : DeepJson());
    EXPECT_THAT(Error(dir_, kInvalid),
                AllOf(HasSubstr(folder + "/" + file), HasSubstr("nested more than 32 deep")));
  }
}

TEST_F(CheckpointTest, FieldsThatCannotBeAreRefused) {
  const std::pair<const char*, const char*> forgeries[] = {
      {"\"step\": 10", "\"step\": -1"},
      {"\"step\": 10", "\"step\": 1e300"},
      {"\"seed\": 18364758544493064720", "\"seed\": 1.5"},
      {"\"micro_batches\": 8", "\"micro_batches\": 18446744073709551615"},
      {"\"seq\": 256", "\"seq\": 256, \"seq\": 257"},
      {"\"bytes\": ", "\"bytes\": 1e300, \"x\": "},
  };
  for (const auto& [from, to] : forgeries) {
    const std::string folder = Save(10);
    Forge(folder, "state.json", from, to);
    EXPECT_THAT(Error(dir_, kInvalid), HasSubstr(folder + "/state.json cannot be ")) << to;
  }
  for (const char* widths : {"7", "[6, -5, 3]", "[6, 5.5, 3]", "[6, 1099511627776, 3]"}) {
    const std::string folder = Save(10);
    Forge(folder, "config.json", "\"widths\": ", absl::StrCat("\"widths\": ", widths, ", \"x\": "));
    EXPECT_THAT(Error(dir_, kInvalid),
                AllOf(HasSubstr(folder + "/config.json: field 'widths' is "), HasSubstr("list")));
  }
}

// Saves more and more values until there is no room left; `save` gets the number of values.
template <typename Save>
void FillUp(const std::string& dir, Save save) {
  const auto count = [&] {
    const fs::directory_iterator entries(dir);
    return std::distance(fs::begin(entries), fs::end(entries));
  };
  const auto before = count();
  int failures = 0;
  for (size_t values = 1000; values < 40'000; values += 1000) {
    const absl::Status status = save(values);
    if (!status.ok()) {
      ++failures;
      ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      ASSERT_THAT(status.message(), HasSubstr(dir));
    }
    ASSERT_TRUE(OpenCheckpoint(dir).ok());
    ASSERT_EQ(count(), before);
  }
  EXPECT_GT(failures, 5);
}

// In one file, or with a file for each of the two tensors.
absl::Status SaveValues(const std::string& dir, size_t values, int64_t shard_bytes) {
  const std::vector<float> big(values);
  const int64_t size = static_cast<int64_t>(values);
  return SaveTensors(dir, SomeState(10), {{"w", {size}, big.data()}, {"b", {5}, big.data()}},
                     {{"w.m", {size}, big.data()}}, 1, shard_bytes)
      .status();
}

TEST_F(CheckpointTest, FileSizeLimitLeavesTheOldCheckpoint) {
  for (const int64_t shard_bytes : {kShardBytes, int64_t{1}}) {
    Save(10);
    FillUp(dir_, [&](size_t values) {
      const FileSizeLimit limit(64 << 10);
      return SaveValues(dir_, values, shard_bytes);
    });
  }
}

TEST_F(CheckpointTest, FullDiskLeavesTheOldCheckpoint) {
  fs::create_directories(dir_);
  const TinyDisk disk(dir_, "256k");
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a tmpfs here (needs root)";
  for (const int64_t shard_bytes : {kShardBytes, int64_t{1}}) {
    Save(10);
    FillUp(dir_, [&](size_t values) { return SaveValues(dir_, values, shard_bytes); });
  }
}

}  // namespace
}  // namespace sluice
