// The facts that an error carries beside its message, and how they are sent between ranks.
#include "comm/where.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Moment = Where::Moment;

absl::Status Gone() { return WithPeer(absl::UnavailableError("rank 0 is gone"), 0); }

Where AtAction() {
  return {.rank = 2, .replica = 1, .stage = 3, .micro_batch = 4, .action = "3F4"};
}

TEST(Where, IsSaidBeforeTheMessage) {
  EXPECT_EQ(DescribeError(Gone()), "rank 0 is gone");
  EXPECT_EQ(DescribeError(WithWhere(Gone(), {.rank = 2})), "rank 2: rank 0 is gone");
  EXPECT_EQ(DescribeError(WithWhere(Gone(), AtAction())),
            "rank 2 (replica 1), stage 3, micro-batch 4, action 3F4: rank 0 is gone");
  const auto at = [](Moment moment, std::optional<int64_t> step) {
    return DescribeError(WithWhere(Gone(), {.rank = 1, .moment = moment, .step = step}));
  };
  EXPECT_EQ(at(Moment::kEndOfStep, std::nullopt), "rank 1, end of the step: rank 0 is gone");
  EXPECT_EQ(at(Moment::kEndOfStep, 7), "rank 1, end of step 7: rank 0 is gone");
  EXPECT_EQ(at(Moment::kCheckpoint, 7), "rank 1, checkpoint of step 7: rank 0 is gone");
  EXPECT_EQ(at(Moment::kLeaving, std::nullopt),
            "rank 1, leaving after the last step: rank 0 is gone");
  EXPECT_EQ(at(Moment::kAudit, 7), "rank 1, audit of step 7: rank 0 is gone");
}

TEST(Where, OfTheRankThatFailedFirstBecomesAPartOfTheMessage) {
  const absl::Status first = WithWhere(Gone(), AtAction());
  const absl::Status second = WithWhere(first, {.rank = 1, .moment = Moment::kEndOfStep});
  EXPECT_EQ(DescribeError(second), "rank 1, end of the step: " + DescribeError(first));
  EXPECT_EQ(WhereOf(second).peer, 0);
  EXPECT_FALSE(WhereOf(second).stage.has_value());
}

TEST(Where, IsKeptBehindAPrefixAndBeforeASuffix) {
  absl::Status status = Gone();
  status.SetPayload("another", absl::Cord("kept"));
  status = WithPrefix("while it waited: ", status);
  EXPECT_EQ(status.message(), "while it waited: rank 0 is gone");
  EXPECT_EQ(WhereOf(status).peer, 0);
  EXPECT_EQ(status.GetPayload("another"), absl::Cord("kept"));
  status = WithSuffix(status, "; look for it");
  EXPECT_EQ(status.message(), "while it waited: rank 0 is gone; look for it");
  EXPECT_EQ(WhereOf(status).peer, 0);
  EXPECT_EQ(status.GetPayload("another"), absl::Cord("kept"));
}

TEST(Where, TravelsWithItsStatus) {
  Where where = AtAction();
  where.moment = Moment::kAudit;
  where.step = int64_t{1} << 40U;
  const absl::Status sent = WithWhere(Gone(), where);
  EXPECT_EQ(DecodeError(static_cast<uint64_t>(sent.code()), EncodeError(sent, 1000)), sent);
  const absl::Status bare = absl::NotFoundError("two\nlines");
  EXPECT_EQ(DecodeError(static_cast<uint64_t>(bare.code()), EncodeError(bare, 1000)), bare);
  EXPECT_EQ(DecodeError(5, EncodeError(bare, 3)), absl::NotFoundError("two"));
}

TEST(Where, OfRanksThatDifferTravelsAndIsNotSaid) {
  const absl::Status differ =
      WithWhere(absl::FailedPreconditionError("different"), {.moment = Moment::kAgreement});
  EXPECT_EQ(DecodeError(static_cast<uint64_t>(differ.code()), EncodeError(differ, 1000)), differ);
  EXPECT_EQ(DescribeError(differ), "different");
}

TEST(Where, IsBoundedInBytes) {
  const int most = std::numeric_limits<int>::max();
  const Where where{.rank = most,
                    .replica = most,
                    .stage = most,
                    .micro_batch = most,
                    .action = std::string(kLongestAction, 'F'),
                    .moment = Moment::kLeaving,
                    .step = std::numeric_limits<int64_t>::max(),
                    .peer = most};
  const absl::Status status = WithWhere(absl::UnavailableError(""), where);
  EXPECT_LE(EncodeError(status, 0).size(), kLongestWhere);
  EXPECT_EQ(WhereOf(status).peer, most);
}

TEST(Where, OfAnotherRankMayBeAnyBytes) {
  EXPECT_EQ(DecodeError(0, "").code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(DecodeError(99, "\nwords"), absl::UnknownError("words"));
  for (const char* line : {"rank", "rank=", "=", "rank=-1", "rank=99999999999999", "moment=9",
                           "action=\x1b[2J", "step=x", "other=1", "  "}) {
    const absl::Status status = DecodeError(14, absl::StrCat(line, "\nwords"));
    EXPECT_EQ(status, absl::UnavailableError("words")) << line;
  }
  EXPECT_EQ(DecodeError(99, "\n\x1b[2Jtwo\r\nlines"),
            absl::UnknownError("\uFFFD[2Jtwo\uFFFD\nlines"));
  EXPECT_EQ(WhereOf(DecodeError(14, "rank=3 nonsense peer=1\nwords")).peer, 1);
}

}  // namespace
}  // namespace sluice
