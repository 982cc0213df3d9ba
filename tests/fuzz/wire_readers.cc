// What strangers may send to the port at which ranks meet.
#include <string>

#include "absl/strings/match.h"
#include "comm/tcp/greeting.h"
#include "promises.h"
#include "readers.h"

namespace sluice {
namespace {

constexpr size_t kLongestGreeting = 20'000;

// Reads as a rank does: only so many bytes as are missing. Garbage is refused at its first byte.
void ReadPieceByPiece(absl::string_view bytes, bool whole_is_fine, size_t whole_used) {
  size_t have = 0;
  while (true) {
    const size_t missing = GreetingBytesMissing(bytes.substr(0, have));
    Require(missing > 0 && have + missing <= kLongestGreeting, "a greeting ends soon");
    if (have + missing > bytes.size()) {
      Require(whole_used == 0 || !whole_is_fine, "a whole greeting needs no more");
      return;
    }
    have += missing;
    size_t used = 0;
    const auto greeting = ParseGreeting(bytes.substr(0, have), &used);
    if (!greeting.ok()) return Require(!whole_is_fine, "pieces are as fine as the whole");
    if (used == 0) continue;
    return Require(whole_is_fine && used == have && used == whole_used, "no byte too many is read");
  }
}

}  // namespace

void TryGreeting(absl::string_view text) {
  size_t used = 0;
  const auto greeting = ParseGreeting(text, &used);
  Require(used <= text.size(), "it takes what there is");
  ReadPieceByPiece(text, greeting.ok(), used);
  if (!greeting.ok()) {
    Require(greeting.status().code() == absl::StatusCode::kInvalidArgument ||
                greeting.status().code() == absl::StatusCode::kFailedPrecondition,
            "garbage is refused as that");
    return Require(greeting.status().message().size() < 200, "a refusal is one line");
  }
  if (used == 0) return Require(text.size() < kLongestGreeting, "nobody waits for ever");
  const std::string formatted = FormatGreeting(*greeting);
  // What cannot be shown is replaced by a character of three bytes.
  if (absl::StrContains(greeting->text, "\uFFFD")) return;
  Require(formatted.size() == used, "a greeting has its length");
  if (greeting->kind != GreetingKind::kRefusal && greeting->kind != GreetingKind::kIncomplete) {
    Require(formatted == text.substr(0, used), "a greeting comes back from its bytes");
  }
  size_t again = 0;
  const auto twice = ParseGreeting(formatted, &again);
  Require(twice.ok() && again == used && *twice == *greeting, "twice is as once");
}

}  // namespace sluice
