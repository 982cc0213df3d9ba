#include "models/failpoints/failpoints.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "models/files/disk.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

TEST(ParseFault, ReadsPointHitAndKind) {
  const absl::StatusOr<Fault> torn = ParseFault("disk.write:7:tear");
  ASSERT_TRUE(torn.ok()) << torn.status();
  EXPECT_EQ(torn->point, "disk.write");
  EXPECT_EQ(torn->hit, 7);
  EXPECT_EQ(torn->kind, FaultKind::kTear);
  const absl::StatusOr<Fault> any = ParseFault("*:1:kill");
  ASSERT_TRUE(any.ok()) << any.status();
  EXPECT_EQ(any->point, "");
  EXPECT_EQ(any->kind, FaultKind::kKill);
}

TEST(ParseFault, SaysWhatIsWrong) {
  for (const char* text :
       {"", "disk.write", "disk.write:1", "disk.write:0:fail", "disk.write:x:fail", ":1:fail",
        "disk.write:1:explode", "disk.write:1:fail:2"}) {
    const absl::Status status = ParseFault(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("expected POINT:HIT:KIND"));
  }
}

#ifdef SLUICE_FAILPOINTS

// A file that is written to in ten calls, of ten bytes each.
class Failpoints : public testing::Test {
 protected:
  void TearDown() override { ArmFault(std::nullopt); }

  // The calls that failed, by their number from 1.
  std::vector<int> WriteAll() {
    std::vector<int> failed;
    const int fd = disk::Open(path_, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (int i = 1; i <= 10; ++i) {
      errno = 0;
      if (disk::Write(fd, "0123456789", 10) != 10) failed.push_back(i);
      EXPECT_EQ(errno, failed.empty() || failed.back() != i ? 0 : EIO);
    }
    close(fd);
    return failed;
  }

  TempFolder folder_;
  std::string path_ = folder_ / "file";
};

TEST_F(Failpoints, CountHitsByName) {
  ArmFault(std::nullopt);
  EXPECT_THAT(WriteAll(), testing::IsEmpty());
  EXPECT_THAT(FailpointHits(),
              testing::ElementsAre(testing::Pair("disk.open", 1), testing::Pair("disk.write", 10)));
  EXPECT_FALSE(FaultHappened());
}

TEST_F(Failpoints, FailOnceDoingNothing) {
  ArmFault(Fault{.point = "disk.write", .hit = 3});
  EXPECT_THAT(WriteAll(), testing::ElementsAre(3));
  EXPECT_EQ(ReadBytes(path_).size(), 90U);
  EXPECT_TRUE(FaultHappened());
}

TEST_F(Failpoints, TearAWriteInTheMiddle) {
  ArmFault(Fault{.point = "disk.write", .hit = 10, .kind = FaultKind::kTear});
  EXPECT_THAT(WriteAll(), testing::ElementsAre(10));
  EXPECT_EQ(ReadBytes(path_).size(), 95U);
}

TEST_F(Failpoints, CountAnyPoint) {
  ArmFault(Fault{.hit = 4});  // the open is the first
  EXPECT_THAT(WriteAll(), testing::ElementsAre(3));
}

TEST_F(Failpoints, VanishWithEverythingOfTheirGroup) {
  ArmFault(Fault{.point = "disk.write", .hit = 8, .kind = FaultKind::kVanish});
  EXPECT_THAT(WriteAll(), testing::ElementsAre(8, 9, 10));
  EXPECT_NE(HitFailpoint("disk", "sync").error, 0);
  EXPECT_EQ(HitFailpoint("message", "send").error, 0);
}

TEST_F(Failpoints, DelayAndDoTheirWork) {
  ArmFault(Fault{
      .point = "disk.write", .hit = 2, .kind = FaultKind::kDelay, .delay = absl::Milliseconds(20)});
  const absl::Time before = absl::Now();
  EXPECT_THAT(WriteAll(), testing::IsEmpty());
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(19));
  EXPECT_EQ(ReadBytes(path_).size(), 100U);
}

using FailpointsDeathTest = Failpoints;

TEST_F(FailpointsDeathTest, KillTheProcess) {
  EXPECT_EXIT(
      {
        ArmFault(Fault{.point = "disk.write", .hit = 2, .kind = FaultKind::kKill});
        WriteAll();
      },
      testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(ReadBytes(path_).size(), 15U);
}

#endif

}  // namespace
}  // namespace sluice
