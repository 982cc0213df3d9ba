#include "schedules/lower.h"

#include <gtest/gtest.h>

#include "naive.h"
#include "random_timetable.h"
#include "schedules/catalogue.h"
#include "schedules/validate.h"

namespace sluice {
namespace {

std::vector<std::vector<Action>> WithoutIdle(std::vector<std::vector<Action>> rows) {
  for (auto& row : rows) std::erase_if(row, [](const Action& a) { return a.op == Op::kIdle; });
  return rows;
}

TEST(LowerTimetable, IsSoundForAnyTable) {
  Random random(8);
  for (int i = 0; i < 3000; ++i) {
    const Timetable table = RandomTimetable(random);
    const auto lowered = LowerTimetable(table);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_TRUE(NaiveIsSound(*lowered));
    const absl::Status sound = ValidateTimetable(*lowered);
    ASSERT_TRUE(sound.ok()) << sound;
    EXPECT_EQ(ComputeOnly(*lowered).rows, WithoutIdle(table.rows));
  }
}

TEST(LowerTimetable, SendsNothingWithinARank) {
  Timetable table = *GenerateSchedule("gpipe", {1, 3});
  EXPECT_EQ(LowerTimetable(table)->rows, table.rows);
}

TEST(LowerTimetable, RefusesWhatIsLoweredOrUnsound) {
  Timetable table = *GenerateSchedule("1f1b", {2, 2});
  const Timetable lowered = *LowerTimetable(table);
  EXPECT_NE(LowerTimetable(lowered).status().message().find("already has sends"),
            absl::string_view::npos);
  table.rows[0].pop_back();
  EXPECT_FALSE(LowerTimetable(table).ok());
}

}  // namespace
}  // namespace sluice
