// Ranks that write one checkpoint together write the same bytes as one writer would.
#include "pipeline/checkpoint/saving/save_together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comm/local/in_process.h"
#include "comm/where.h"
#include "models/files/file_writer.h"
#include "pipeline/checkpoint/saving/running_checksum.h"
#include "tests/comm/deaf_rank.h"
#include "tests/comm/tcp/tcp_group.h"
#include "tests/models/data/full_disk.h"
#include "tests/pipeline/checkpoint/checkpoint_fixture.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

TEST(RunningChecksum, IsThatOfTheWholeWhoeverAddsWhat) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::string bytes(random() % 5000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    std::string state = RunningChecksum().Export();
    for (size_t at = 0; at < bytes.size();) {
      RunningChecksum sum;  // another rank's
      sum.Import(state);
      const size_t part = std::min(bytes.size() - at, size_t{1} + random() % 1500);
      sum.Add(bytes.data() + at, part);
      state = sum.Export();
      at += part;
    }
    RunningChecksum last;
    last.Import(state);
    ASSERT_EQ(last.Hex(), Checksum(bytes.data(), bytes.size())) << bytes.size() << " bytes";
  }
}

// Tensors of a checkpoint, with values, cut into parts of random owners.
struct Cut {
  std::vector<std::vector<float>> values;  // [tensor, of both files]
  std::vector<TensorSource> sources[2];    // [file]
  std::vector<CheckpointFile> files;       // part.parameter: the tensor
};

std::vector<CheckpointPart> CutTensor(int tensor, int64_t elements, int64_t longest, int ranks,
                                      uint64_t* offset, std::mt19937& random) {
  std::vector<CheckpointPart> parts;
  for (int64_t first = 0; first < elements;) {
    const int64_t count =
        std::min<int64_t>(elements - first, 1 + random() % std::min(longest, elements));
    parts.push_back({.parameter = tensor,
                     .owner = static_cast<int>(random() % static_cast<unsigned>(ranks)),
                     .first = first,
                     .count = count,
                     .offset = *offset});
    *offset += static_cast<uint64_t>(count) * sizeof(float);
    first += count;
  }
  return parts;
}

// Sometimes a tensor has several pieces, unless parts are to be short.
Cut RandomCut(int ranks, std::mt19937& random, int64_t longest = int64_t{1} << 40) {
  const unsigned most = longest > 1'000'000 && random() % 2 == 0 ? 900'000 : 3000;
  Cut cut;
  cut.values.resize(2 + random() % 8);
  for (size_t tensor = 0; tensor < cut.values.size(); ++tensor) {
    cut.values[tensor].resize(random() % (tensor == 1 ? most : 3000));
    for (float& value : cut.values[tensor]) value = static_cast<float>(random());
    cut.sources[tensor % 2].push_back({.name = absl::StrCat("tensor", tensor),
                                       .shape = {static_cast<int64_t>(cut.values[tensor].size())},
                                       .data = cut.values[tensor].data()});
  }
  const char* const names[] = {"model.safetensors", "optimizer.safetensors"};
  for (size_t file = 0; file < 2; ++file) {
    CheckpointFile& made = cut.files.emplace_back(*FileOf(names[file], cut.sources[file], 0));
    made.parts.clear();
    made.bytes = made.head.size();
    for (size_t tensor = file; tensor < cut.values.size(); tensor += 2) {
      const auto elements = static_cast<int64_t>(cut.values[tensor].size());
      for (const CheckpointPart& part :
           CutTensor(static_cast<int>(tensor), elements, longest, ranks, &made.bytes, random))
        made.parts.push_back(part);
    }
  }
  return cut;
}

// The expected content of the file: its header, then the values of its tensors, one after the
// other.
std::string BytesOf(const Cut& cut, size_t file) {
  std::string bytes = cut.files[file].head;
  for (size_t tensor = file; tensor < cut.values.size(); tensor += 2) {
    const std::vector<float>& values = cut.values[tensor];
    if (!values.empty())
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return bytes;
}

class SaveTogetherTest : public testing::Test {
 protected:
  SaveRequest RequestOf(const Cut& cut, int64_t step) {
    SaveRequest request;
    request.directory = dir_;
    request.state = SomeState(step);
    request.files = cut.files;
    request.timeout = absl::Seconds(60);
    request.read = [&cut](const CheckpointPart& part, int64_t first, int64_t /*count*/) {
      return cut.values[static_cast<size_t>(part.parameter)].data() + part.first + first;
    };
    return request;
  }

  // The answer of each rank; a rank that fails tells the others.
  using Ends = std::vector<absl::StatusOr<std::string>>;
  template <typename Group>
  static Ends SaveAll(const std::vector<SaveRequest>& requests, const Group& communicator) {
    Ends ends(requests.size(), absl::UnknownError("did not end"));
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < requests.size(); ++rank) {
      threads.emplace_back([&, rank] {
        Communicator& world = communicator(static_cast<int>(rank));
        const absl::StatusOr<SaveOutcome> outcome = SaveTogether(requests[rank], world);
        if (!outcome.ok()) world.Abort(outcome.status());
        ends[rank] = PathOf(outcome);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

  // Without the folder that `latest` leads to.
  static void ExpectSameFiles(const std::string& one, const std::string& other) {
    for (const char* name :
         {"model.safetensors", "config.json", "optimizer.safetensors", "state.json"}) {
      EXPECT_EQ(ReadBytes(one + "/" + name), ReadBytes(other + "/" + name)) << name;
    }
  }

  TempFolder folder_;
  std::string dir_ = folder_ / "run";
};

TEST_F(SaveTogetherTest, LeavesTheBytesOfOneWriterWhoeverOwnsWhatAndSeesWhat) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 5);
    const Cut cut = RandomCut(ranks, random);
    const auto wanted =
        SaveTensors(folder_ / "one", SomeState(seed), cut.sources[0], cut.sources[1]);
    ASSERT_TRUE(wanted.ok()) << wanted.status();

    std::vector<SaveRequest> requests(static_cast<size_t>(ranks), RequestOf(cut, seed));
    for (size_t rank = 1; rank < requests.size(); ++rank) {
      // Some rank shares no file system with the others, or has another folder of that name.
      if (random() % 3 == 0) requests[rank].directory = folder_ / "elsewhere";
    }
    Ends ends;
    if (seed % 2 == 0) {
      InProcessGroup group(ranks, 16);
      ends = SaveAll(requests, [&](int rank) -> Communicator& { return group.communicator(rank); });
    } else {
      const auto group = MakeTcpGroup(ranks, {.capacity = 16});
      ends = SaveAll(requests,
                     [&](int rank) -> Communicator& { return *group[static_cast<size_t>(rank)]; });
    }
    for (const auto& end : ends) ASSERT_TRUE(end.ok()) << "seed " << seed << ": " << end.status();
    EXPECT_EQ(*ends[0], absl::StrCat(dir_, "/", fs::path(*wanted).filename().string()));
    for (int rank = 1; rank < ranks; ++rank) EXPECT_EQ(*ends[static_cast<size_t>(rank)], "");
    ExpectSameFiles(*ends[0], *wanted);
    for (size_t file = 0; file < 2; ++file)
      EXPECT_EQ(ReadBytes(absl::StrCat(*ends[0], "/", cut.files[file].name)), BytesOf(cut, file));
    EXPECT_TRUE(OpenCheckpoint(dir_).ok());
    EXPECT_FALSE(fs::exists(folder_ / "elsewhere"));
    for (const auto& entry : fs::directory_iterator(dir_ + "/.sluice"))
      EXPECT_FALSE(absl::StartsWith(entry.path().filename().string(), "saving")) << entry.path();
  }
}

// A rank may take many times the time-out, as long as it takes part in the rounds.
TEST_F(SaveTogetherTest, ARankMayTakeLongerThanTheTimeout) {
  std::mt19937 random(1);
  const Cut cut = RandomCut(3, random, /*longest=*/100);
  std::vector<SaveRequest> requests(3, RequestOf(cut, 1));
  for (SaveRequest& request : requests) request.timeout = absl::Seconds(3);
  int reads = 0;
  for (const CheckpointFile& file : cut.files) {
    // Each part is read twice: for the checksum, too.
    for (const CheckpointPart& part : file.parts) reads += part.owner == 1 ? 2 : 0;
  }
  ASSERT_GT(reads, 20) << "no single one is to take long";
  requests[1].read = [read = requests[1].read, reads](const CheckpointPart& part, int64_t first,
                                                      int64_t count) {
    absl::SleepFor(absl::Seconds(5) / reads);
    return read(part, first, count);
  };
  InProcessGroup group(3, 16);
  for (const auto& end :
       SaveAll(requests, [&](int rank) -> Communicator& { return group.communicator(rank); }))
    EXPECT_TRUE(end.ok()) << end.status();
}

// A rank that hangs is detected by the time-out, and the previous checkpoint stays the latest.
TEST_F(SaveTogetherTest, ARankThatHangsIsMissedAndNothingIsLeftBehind) {
  std::mt19937 random(2);
  const Cut cut = RandomCut(3, random);
  ASSERT_TRUE(SaveTensors(dir_, SomeState(1), cut.sources[0], cut.sources[1]).ok());
  std::vector<SaveRequest> requests(3, RequestOf(cut, 2));
  for (SaveRequest& request : requests) request.timeout = absl::Milliseconds(500);
  InProcessGroup group(3, 16);
  std::atomic<int> ended = 0;
  requests[2].read = [&ended, read = requests[2].read](const CheckpointPart& part, int64_t first,
                                                       int64_t count) {
    while (ended < 2) absl::SleepFor(absl::Milliseconds(1));
    return read(part, first, count);
  };
  Ends ends(3, absl::UnknownError("did not end"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto& end = ends[static_cast<size_t>(rank)];
      end = PathOf(SaveTogether(requests[static_cast<size_t>(rank)], group.communicator(rank)));
      // Otherwise messages might still use its memory, which is free by now.
      EXPECT_FALSE(group.communicator(rank).failure().ok());
      ++ended;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& end : ends)
    EXPECT_EQ(end.status().code(), absl::StatusCode::kDeadlineExceeded) << end.status();
  EXPECT_EQ(OpenCheckpoint(dir_)->state.step, 1);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre(".sluice", "latest", "step-00000001"));
}

// Rank 0 alone puts the checkpoint in its place, and may lose the others before or after that.
TEST_F(SaveTogetherTest, ALeaderThatLosesTheOthersKnowsWhetherTheCheckpointIsThere) {
  std::mt19937 random(5);
  const Cut cut = RandomCut(2, random);
  int there = 0, not_there = 0;
  for (int deaf_at = 1;; ++deaf_at) {
    fs::remove_all(dir_);
    InProcessGroup group(2, 16);
    DeafRank leader(&group.communicator(0), deaf_at);
    const Ends ends =
        SaveAll(std::vector<SaveRequest>(2, RequestOf(cut, 1)), [&](int rank) -> Communicator& {
          if (rank == 0) return leader;
          return group.communicator(rank);
        });
    if (group.communicator(0).failure().ok()) break;
    const bool is_there = OpenCheckpoint(dir_).ok();
    EXPECT_EQ(ends.front().ok(), is_there) << ends.front().status();
    ++(is_there ? there : not_there);
  }
  EXPECT_GE(there, 1);
  EXPECT_GE(not_there, 3);
}

// All ranks are told what rank 0 cannot write, and can save once it can.
TEST_F(SaveTogetherTest, ALeaderThatCannotWriteTellsAllAndTheRanksGoOn) {
  std::mt19937 random(3);
  const Cut cut = RandomCut(2, random);
  WriteBytes(dir_, "a file where the folder should be");
  const std::vector<SaveRequest> requests(2, RequestOf(cut, 1));
  InProcessGroup group(2, 16);
  const auto save = [&] {
    return SaveAll(requests, [&](int rank) -> Communicator& { return group.communicator(rank); });
  };
  for (const auto& end : save()) {
    EXPECT_THAT(std::string(end.status().message()), testing::HasSubstr(dir_));
    EXPECT_EQ(WhereOf(end.status()).rank, 0);
    EXPECT_EQ(WhereOf(end.status()).moment, Where::Moment::kCheckpoint);
  }
  fs::remove(dir_);
  for (const auto& end : save()) EXPECT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(OpenCheckpoint(dir_)->state.step, 1);
}

// As where a rank's GPU is lost while its state is read.
TEST_F(SaveTogetherTest, WhatWasNotReadAsItWasBecomesNoCheckpoint) {
  std::mt19937 random(4);
  const Cut cut = RandomCut(3, random);
  std::vector<SaveRequest> requests(3, RequestOf(cut, 1));
  InProcessGroup group(3, 16);
  const auto save = [&] {
    return SaveAll(requests, [&](int rank) -> Communicator& { return group.communicator(rank); });
  };
  for (const auto& end : save()) ASSERT_TRUE(end.ok()) << end.status();
  std::atomic<int> released = 0;
  for (SaveRequest& request : requests) {
    request.state.step = 2;
    request.on_read = [&released] { ++released; };
  }
  requests[1].check_read = [] { return absl::UnavailableError("the GPU is lost"); };
  for (const auto& end : save()) {
    EXPECT_EQ(end.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(end.status().message()), testing::HasSubstr("the GPU is lost"));
    EXPECT_EQ(WhereOf(end.status()).rank, 1);
  }
  EXPECT_EQ(released, 3);
  EXPECT_EQ(OpenCheckpoint(dir_)->state.step, 1);
  EXPECT_FALSE(fs::exists(dir_ + "/step-00000002"));
}

// Whatever a rank is at when the disk is full, its own parts or those that others send to rank 0.
TEST_F(SaveTogetherTest, AFullDiskFailsOnAllRanksAndTheNextSaveSucceeds) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const int ranks = 1 + static_cast<int>(random() % 4);
    const Cut cut = RandomCut(ranks, random, /*longest=*/2000);
    std::vector<SaveRequest> requests(static_cast<size_t>(ranks), RequestOf(cut, 1));
    for (size_t rank = 1; rank < requests.size(); ++rank) {
      if (random() % 2 == 0) requests[rank].directory = folder_ / "elsewhere";
    }
    const auto group = MakeTcpGroup(ranks, {.capacity = 16});
    const auto save = [&] {
      return SaveAll(requests,
                     [&](int rank) -> Communicator& { return *group[static_cast<size_t>(rank)]; });
    };
    {
      const FileSizeLimit full(random() % cut.files[random() % 2].bytes);
      for (const auto& end : save()) {
        ASSERT_EQ(end.status().code(), absl::StatusCode::kResourceExhausted)
            << "seed " << seed << ": " << end.status();
      }
      EXPECT_FALSE(OpenCheckpoint(dir_).ok());
    }
    for (const auto& end : save()) ASSERT_TRUE(end.ok()) << "seed " << seed << ": " << end.status();
    EXPECT_EQ(OpenCheckpoint(dir_)->state.step, 1);
    fs::remove_all(dir_);
  }
}

}  // namespace
}  // namespace sluice
