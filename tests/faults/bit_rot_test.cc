// A bit of a checkpoint flips, in each of its bytes in turn: the damage is found, by the file's
// name, and the checkpoint before it is gone on from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "tests/all_faults.h"
#include "tests/faults/saving_runs.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

TEST(BitRot, OfAnyByteIsFound) {
  const TempFolder folder(FastFolder());
  const std::string directory = folder / "run";
  const SavingRunEnd end = RunAndSave(directory, {.keep = kSavingSteps});
  ASSERT_TRUE(end.status.ok()) << end.status;
  std::mt19937 random(1);
  // A prime, so that all bits of a value come up.
  const size_t stride = AllFaults() ? 1 : 37;
  size_t flipped = 0, bytes = 0;
  const std::string newest = directory + "/step-00000004";
  const CheckpointBytes whole = BytesOf(newest);
  ASSERT_THAT(whole, testing::SizeIs(4));
  for (const auto& [name, content] : whole) {
    bytes += content.size();
    for (size_t at = 0; at < content.size(); at += stride) {
      std::string rotten = content;
      rotten[at] = static_cast<char>(rotten[at] ^ (1 << random() % 8));
      WriteBytes(absl::StrCat(newest, "/", name), rotten);
      SCOPED_TRACE(absl::StrCat("byte ", at, " of ", name));
      const absl::Status status = OpenCheckpoint(newest).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      ASSERT_THAT(std::string(status.message()), testing::HasSubstr(absl::StrCat("/", name)));
      std::string instead;
      const absl::StatusOr<WhichCheckpoint> older = OpenAndRecognise(directory, &instead);
      ASSERT_TRUE(older.ok()) << older.status();
      ASSERT_EQ(*older, (WhichCheckpoint{1, 3}));
      ASSERT_THAT(instead, testing::HasSubstr(absl::StrCat("/", name)));
      ++flipped;
    }
    WriteBytes(absl::StrCat(newest, "/", name), content);
  }
  EXPECT_TRUE(OpenCheckpoint(newest).ok());
  std::printf("%zu of %zu bytes\n", flipped, bytes);
}

// Where a file ends matters as much as what is in it.
TEST(BitRot, AFileThatIsCutShortOrTooLongIsFound) {
  const TempFolder folder(FastFolder());
  const std::string directory = folder / "run";
  ASSERT_TRUE(RunAndSave(directory, {}).status.ok());
  const std::string newest = directory + "/step-00000004";
  const size_t stride = AllFaults() ? 1 : 101;
  for (const auto& [name, content] : BytesOf(newest)) {
    const std::string path = absl::StrCat(newest, "/", name);
    std::vector<std::string> others = {content + '\0', content + '\n', content + content};
    for (size_t size = 0; size < content.size(); size += stride)
      others.push_back(content.substr(0, size));
    for (const std::string& other : others) {
      WriteBytes(path, other);
      const absl::Status status = OpenCheckpoint(newest).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << other.size() << ": " << status;
    }
    std::filesystem::remove(path);
    EXPECT_EQ(OpenCheckpoint(newest).status().code(), absl::StatusCode::kDataLoss) << name;
    WriteBytes(path, content);
  }
  EXPECT_TRUE(OpenCheckpoint(newest).ok());
}

}  // namespace
}  // namespace sluice
