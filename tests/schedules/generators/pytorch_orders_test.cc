// Orders that PyTorch 2.15 (torch.distributed.pipelining.schedules) makes and that cannot run:
// typed from what its functions return.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/lower.h"
#include "tests/schedules/naive.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

Timetable Parse(const char* csv) {
  auto table = ParseTimetableCsv(csv, "pytorch.csv");
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

std::vector<std::string> Defects(const Timetable& table) {
  std::vector<std::string> found;
  for (const Defect& defect : FindDefects(table)) found.push_back(ToString(defect));
  return found;
}

// Schedule1F1B._get_pipeline_order of 2 stages and 2 micro-batches: the last rank counts its first
// forward as 1, so it leaves out micro-batch 0 and has one that does not exist.
TEST(PyTorchOrders, ItsOneFOneBIsMalformedOnTheLastRank) {
  const Timetable table = Parse(
      "0F0,,,0F1,0B0,,0B1,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
      ",1F1,1B0,1F2,1B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD\n");
  EXPECT_FALSE(NaiveIsSound(table));
  EXPECT_THAT(Defects(table),
              AllOf(Contains("rank 1, 1F0: is absent"), Contains("rank 0, 0F2: is absent")));
}

// ScheduleZBVZeroBubble of 2 ranks and 3 micro-batches after _add_send_recv and _defer_recv_ops:
// rank 1 moves the receive of 1F2 behind that of 2B0, while rank 0 sends them in the other order;
// and both ranks send before they receive.
constexpr char kDeferredZbV[] =
    "0F0,0SEND_F0,0F1,0SEND_F1,0F2,3RECV_F0,0SEND_F2,3F0,3I0,3RECV_F1,3SEND_B0,3W0,3F1,3I1,"
    "3SEND_B1,3W1,0RECV_B0,0I0,0W0,3RECV_F2,3F2,3I2,3SEND_B2,3W2,0RECV_B1,0I1,0W1,0RECV_B2,0I2,"
    "0W2\n"
    "1RECV_F0,1F0,2F0,2SEND_F0,1RECV_F1,1F1,2F1,2SEND_F1,2RECV_B0,2I0,2W0,1RECV_F2,1F2,1I0,"
    "1SEND_B0,1W0,2F2,2SEND_F2,2RECV_B1,2I1,2W1,1I1,1SEND_B1,2RECV_B2,2I2,1I2,1SEND_B2,1W1,2W2,"
    "1W2\n";

TEST(PyTorchOrders, ItsDeferredReceivesMeetInTheWrongOrder) {
  const Timetable table = Parse(kDeferredZbV);
  EXPECT_FALSE(NaiveIsSound(table));
  EXPECT_THAT(
      Defects(table),
      ElementsAre(HasSubstr("rank 1, position 8, 2RECV_B0: message 2 from rank 0 to rank 1 is "
                            "0SEND_F2 (position 6 there), so 1RECV_F2 is due here"),
                  HasSubstr("rank 0, position 3, 0SEND_F1: deadlock: rank 0 waits at position 3 "
                            "(0SEND_F1) for rank 1, rank 1 waits at position 3 (2SEND_F0) for "
                            "rank 0")));
}

TEST(PyTorchOrders, ItsComputeOrderCanBeLoweredSoundly) {
  const auto lowered = LowerTimetable(ComputeOnly(Parse(kDeferredZbV)));
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_TRUE(NaiveIsSound(*lowered));
  EXPECT_THAT(Defects(*lowered), ElementsAre());
}

}  // namespace
}  // namespace sluice
