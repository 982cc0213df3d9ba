#include "schedules/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>

#include "random_timetable.h"
#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/simulate.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Tables that PyTorch wrote, beside the project where they exist.
std::filesystem::path SharedSchedules() { return SharedFolder() / "data" / "schedules"; }

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The catalogue generates the same tables as PyTorch's schedules of the same kind and size.
TEST(PyTorchFiles, AreTheCatalogues) {
  if (!std::filesystem::exists(SharedSchedules())) GTEST_SKIP() << "no " << SharedSchedules();
  const std::tuple<const char*, const char*, ScheduleRequest> same[] = {
      {"torch_zbv_p4_m8.compute.csv", "zbv", {4, 8, 2}},
      {"torch_dualpipev_p4_m8.compute.csv", "dualpipev", {4, 8, 2}},
      {"torch_interleaved1f1b_p4_m8_v2.compute.csv", "interleaved", {4, 8, 2}},
      {"zb1p_2rank_4stage_8mb.compute.csv", "interleaved-zb", {2, 8, 2}}};
  for (const auto& [file, name, request] : same) {
    auto imported = ParseTimetableCsv(Contents(SharedSchedules() / file), file);
    ASSERT_TRUE(imported.ok()) << imported.status();
    for (auto& row : imported->rows) {
      std::erase_if(row, [](const Action& action) { return action.op == Op::kIdle; });
    }
    const auto generated = GenerateSchedule(name, request);
    EXPECT_EQ(imported->rows, generated->rows) << file;
    EXPECT_EQ(imported->placement.rank_of_stage(), generated->placement.rank_of_stage()) << file;
  }
}

TEST(PyTorchFiles, AreSoundAndComeBackByteForByte) {
  if (!std::filesystem::exists(SharedSchedules())) GTEST_SKIP() << "no " << SharedSchedules();
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SharedSchedules())) {
    SCOPED_TRACE(entry.path());
    ++files;
    const std::string text = Contents(entry.path());
    const auto table = ParseTimetableCsv(text, entry.path().string());
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(FormatTimetableCsv(*table, LineEndOf(text)), text);
    EXPECT_TRUE(ValidateTimetable(*table).ok()) << ValidateTimetable(*table);
    const auto lowered = LowerTimetable(ComputeOnly(*table));
    EXPECT_TRUE(lowered.ok()) << lowered.status();
  }
  EXPECT_GE(files, 6);
}

TEST(PyTorchFiles, LoweredAndComputeOnlyTakeTheSameTime) {
  if (!std::filesystem::exists(SharedSchedules())) GTEST_SKIP() << "no " << SharedSchedules();
  for (const char* name : {"torch_interleaved1f1b_p4_m8_v2", "zb1p_2rank_4stage_8mb"}) {
    const auto read = [&](const char* kind) {
      const std::string file = std::string(name) + kind;
      return *ParseTimetableCsv(Contents(SharedSchedules() / file), file);
    };
    const Timetable compute = read(".compute.csv");
    const Timetable comms = read(".comms.csv");
    const StageCosts costs = StageCosts::Uniform(compute.placement.stages(), 1, 1, 1, 0.125);
    EXPECT_EQ(Simulate(compute, costs)->makespan, Simulate(comms, costs)->makespan) << name;
  }
}

// PyTorch's ZB1P test artifact at F = I = W = 1 with three latencies (its rank 0 does not split the
// backward).
TEST(PyTorchFiles, Zb1pTakesItsKnownTimes) {
  if (!std::filesystem::exists(SharedSchedules())) GTEST_SKIP() << "no " << SharedSchedules();
  const auto table =
      ParseTimetableCsv(Contents(SharedSchedules() / "zb1p_2rank_4stage_8mb.compute.csv"), "zb1p");
  ASSERT_TRUE(table.ok());
  for (const auto& [send, makespan] : {std::pair(0.0, 49.0), {0.1, 49.6}, {0.5, 52.0}}) {
    EXPECT_NEAR(Simulate(*table, StageCosts::Uniform(4, 1, 1, 1, send))->makespan, makespan, 1e-9)
        << send;
  }
}

TEST(TimetableCsv, RoundTripsRandomTables) {
  Random random(9);
  for (int i = 0; i < 2000; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) table = *LowerTimetable(table);
    const LineEnd line_end = i % 3 == 0 ? LineEnd::kCrLf : LineEnd::kLf;
    const std::string text = FormatTimetableCsv(table, line_end);
    EXPECT_EQ(LineEndOf(text), line_end);
    const auto back = ParseTimetableCsv(text, "random");
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
    EXPECT_EQ(back->rows, table.rows);
    EXPECT_EQ(back->micro_batches, table.micro_batches);
    EXPECT_EQ(back->placement.rank_of_stage(), table.placement.rank_of_stage());
    EXPECT_EQ(FormatTimetableCsv(*back, line_end), text);
  }
}

TEST(TimetableCsv, NamesLineAndColumnOfWhatItCannotRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"0F0,0X0\n", "t.csv: line 1, column 5 (cell 2): '0X0' is not an action: what stands after"},
      {"0F0,0B0\n1F0,,1B\n", "t.csv: line 2, column 6 (cell 3): '1B' is not an action: its micro-"},
      {"0F0,F0\n", "line 1, column 5 (cell 2): 'F0' is not an action: its stage is missing"},
      {"0F-1\n", "line 1, column 1 (cell 1): '0F-1'"},
      {"0F0x\n", "something follows its micro-batch"},
      {"99999F0\n", "'99999F0' is not an action: its stage is above 65535"},
      {"1000000000F0\n", "its stage is above 65535"},
      {"0F99999999999\n", "its micro-batch is above 2147483646"},
      {"0F2147483647\n", "its micro-batch is above 2147483646"},
      {"0REDUCE_GRAD1\n", "this operation has no micro-batch"},
      {"(0F0;0B0)\n", "'(0F0;0B0)' is not an action: it is not a pair of two actions"},
      {"(0F0)OVERLAP_F_B\n", "'(0F0)OVERLAP_F_B'"},
      {"(0F0;0B0;0B1)OVERLAP_F_B\n", "(0F0;0B0;0B1)"},
      {"(0F0;0Z0)OVERLAP_F_B\n", "what stands after its stage is no operation"},
      {"\x7f"
       "ELF\x02\x01\n",
       R"(line 1, column 1 (cell 1): '\x7fELF\x02\x01')"},
      {"", "t.csv: line 1, column 1: no timetable: the file is empty"},
      {"\r\n", "the file is empty"},
      {"0F0,0B0\n\n1F0,1B0\n", "t.csv: line 2, column 1: this line has no stage of its own"},
      {"0F0,0B0\n\n", "t.csv: line 2, column 1: this line has no stage of its own"},
  };
  for (const auto& [text, message] : cases) {
    const auto table = ParseTimetableCsv(text, "t.csv");
    ASSERT_FALSE(table.ok()) << text;
    EXPECT_THAT(std::string(table.status().message()), HasSubstr(message));
  }
}

TEST(TimetableCsv, ReadsWhatSpreadsheetsMakeOfIt) {
  const std::string plain = "0F0,0F1,,0B0,0B1\n1F0,1F1,1B0,1B1\n";
  const std::string saved =
      "\xef\xbb\xbf\"0F0\",\"0F1\",\"\", \"0B0\" ,\"0B1\"\r\n1F0,\"1F1 \",1B0,1B1\r\n";
  const auto table = ParseTimetableCsv(saved, "t.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(FormatTimetableCsv(*table), plain);
  EXPECT_THAT(std::string(ParseTimetableCsv("\"0F0,0B0\n", "t.csv").status().message()),
              HasSubstr("cell 1): '\"0F0' is not an action: its stage is missing"));
}

TEST(TimetableCsv, ReadsAnythingWithoutCrashing) {
  Random random(10);
  const std::string letters = "0123456789FBIWSENDRCV_(;),,,\r\n\n OVERLAP_F_B";
  for (int i = 0; i < 20000; ++i) {
    std::string text = "0F0,0B0\n1F0,1B0\n";
    for (int k = Draw(random, 0, 6); k > 0; --k) {
      text[Draw(random, 0, static_cast<int>(text.size()) - 1)] =
          letters[Draw(random, 0, static_cast<int>(letters.size()) - 1)];
    }
    const auto table = ParseTimetableCsv(text, "fuzz");
    if (table.ok()) FindDefects(*table);
  }
}

TEST(TimetableCsv, PlacesAMisplacedActionOnItsStagesRank) {
  const auto table = ParseTimetableCsv("0F0,1F0,0B0\n1B0\n2F0,2B0\n", "t.csv");
  ASSERT_FALSE(table.ok() && ValidateTimetable(*table).ok());
  const auto moved = ParseTimetableCsv("0F0,0F1,0B0,0B1,1B1\n1F0,1F1,1B0\n", "t.csv");
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_THAT(std::string(ValidateTimetable(*moved).message()),
              HasSubstr("rank 0, position 4, 1B1: stage 1 is on rank 1"));
}

}  // namespace
}  // namespace sluice
