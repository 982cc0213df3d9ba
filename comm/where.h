#ifndef SLUICE_COMM_WHERE_H_
#define SLUICE_COMM_WHERE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Where in a run an error happened, and which rank it is about: facts that a status carries beside
// its message, so that code never has to read the words. What is not known is left out.
struct Where {
  // What a rank was doing, where that is not an action of the timetable. kAgreement: all ranks
  // compared what they were started with, and each has found the same differences.
  enum class Moment : uint8_t { kUnknown, kEndOfStep, kCheckpoint, kLeaving, kAudit, kAgreement };

  std::optional<int> rank = {};     // of the world, which reports the error
  std::optional<int> replica = {};  // of that rank, where several compute the same
  std::optional<int> stage = {};
  std::optional<int> micro_batch = {};
  std::string action =
      {};  // of the timetable, as in its CSV: "1F0"; at most kLongestAction letters
  Moment moment = Moment::kUnknown;
  std::optional<int64_t> step = {};
  std::optional<int> peer = {};  // the rank that is lost or late

  // Whether it says what the rank was doing.
  bool names_work() const { return !action.empty() || moment != Moment::kUnknown; }
};
inline constexpr size_t kLongestAction = 64;

// What `status` carries; empty where it carries nothing.
Where WhereOf(const absl::Status& status);

// Adds facts to `status`, which is not OK. If it already names a rank that reports it, because
// another rank failed first and told this one, that place becomes a part of the message in words.
// The peer is kept unless `where` has another.
absl::Status WithWhere(const absl::Status& status, Where where);
// Adds only the rank that is lost or late.
absl::Status WithPeer(const absl::Status& status, int peer);
// `status` with `text` before its message; it keeps what it carries.
absl::Status WithPrefix(absl::string_view text, const absl::Status& status);

// Likewise with `text` after it.
absl::Status WithSuffix(const absl::Status& status, absl::string_view text);

// For people: "rank 2, stage 1, micro-batch 0, action 1F0: rank 0 is gone". Without a rank that
// reports the error it is the message alone.
std::string DescribeError(const absl::Status& status);

// How ranks tell each other a status besides its code: a line with the facts, then the message, of
// which at most `most` bytes are taken.
std::string EncodeError(const absl::Status& status, size_t most);
// A bound on the bytes of EncodeError's first line.
inline constexpr size_t kLongestWhere = 256 + kLongestAction;
// The status that was encoded. A code that no status has becomes kUnknown; facts that cannot be
// read are left out; what a terminal cannot show becomes U+FFFD.
absl::Status DecodeError(uint64_t code, absl::string_view encoded);

}  // namespace sluice

#endif  // SLUICE_COMM_WHERE_H_
