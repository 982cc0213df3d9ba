#include "comm/where.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/printable.h"

namespace sluice {
namespace {

constexpr char kPayload[] = "sluice/where";
constexpr uint64_t kLastCode = static_cast<uint64_t>(absl::StatusCode::kUnauthenticated);

// The numbers, by their names in the encoding.
struct Number {
  const char* name;
  std::optional<int> Where::*value;
};
constexpr Number kNumbers[] = {{"rank", &Where::rank},
                               {"replica", &Where::replica},
                               {"stage", &Where::stage},
                               {"micro_batch", &Where::micro_batch},
                               {"peer", &Where::peer}};
constexpr char kStep[] = "step";
constexpr char kMoment[] = "moment";
constexpr char kAction[] = "action";

// "rank=2 stage=1 action=1F0": what is known, in one line.
std::string Encode(const Where& where) {
  std::string line;
  const auto add = [&line](const char* name, const auto& value) {
    absl::StrAppend(&line, line.empty() ? "" : " ", name, "=", value);
  };
  for (const Number& number : kNumbers) {
    if (const std::optional<int>& value = where.*number.value) add(number.name, *value);
  }
  if (where.step) add(kStep, *where.step);
  if (where.moment != Where::Moment::kUnknown) add(kMoment, static_cast<int>(where.moment));
  if (!where.action.empty()) add(kAction, where.action);
  return line;
}

bool IsAction(absl::string_view text) {
  return text.size() <= kLongestAction && std::all_of(text.begin(), text.end(), [](char letter) {
           return absl::ascii_isgraph(static_cast<unsigned char>(letter));
         });
}

template <typename T>
void ReadNumber(absl::string_view text, std::optional<T>* value) {
  T number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 0) *value = number;
}

void ReadField(absl::string_view name, absl::string_view text, Where* where) {
  for (const Number& number : kNumbers) {
    if (name == number.name) ReadNumber(text, &(where->*number.value));
  }
  if (name == kStep) ReadNumber(text, &where->step);
  if (name == kAction && IsAction(text)) where->action = std::string(text);
  if (name != kMoment) return;
  std::optional<int> moment;
  ReadNumber(text, &moment);
  if (moment && *moment <= static_cast<int>(Where::Moment::kAgreement))
    where->moment = static_cast<Where::Moment>(*moment);
}

Where Decode(absl::string_view line) {
  Where where;
  for (const absl::string_view field : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    ReadField(parts.first, parts.second, &where);
  }
  return where;
}

std::string MomentText(const Where& where) {
  switch (where.moment) {
    case Where::Moment::kEndOfStep:
      return where.step ? absl::StrCat(", end of step ", *where.step) : ", end of the step";
    case Where::Moment::kCheckpoint:
      return absl::StrCat(", checkpoint of step ", where.step.value_or(0));
    case Where::Moment::kLeaving:
      return ", leaving after the last step";
    case Where::Moment::kAudit:
      return absl::StrCat(", audit of step ", where.step.value_or(0));
    default:
      return "";
  }
}

// "rank 2, stage 1, micro-batch 0, action 1F0"; there is a rank.
std::string Describe(const Where& where) {
  std::string text = absl::StrCat("rank ", *where.rank);
  if (where.replica) absl::StrAppend(&text, " (replica ", *where.replica, ")");
  if (where.stage) absl::StrAppend(&text, ", stage ", *where.stage);
  if (where.micro_batch) absl::StrAppend(&text, ", micro-batch ", *where.micro_batch);
  if (!where.action.empty()) absl::StrAppend(&text, ", action ", where.action);
  return text + MomentText(where);
}

absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status other(status.code(), message);
  status.ForEachPayload([&other](absl::string_view name, const absl::Cord& payload) {
    other.SetPayload(name, payload);
  });
  return other;
}

}  // namespace

Where WhereOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  return payload ? Decode(std::string(*payload)) : Where();
}

absl::Status WithWhere(const absl::Status& status, Where where) {
  const Where before = WhereOf(status);
  if (!where.peer) where.peer = before.peer;
  absl::Status result = before.rank ? WithMessage(status, DescribeError(status)) : status;
  result.SetPayload(kPayload, absl::Cord(Encode(where)));
  return result;
}

absl::Status WithPeer(const absl::Status& status, int peer) {
  Where where = WhereOf(status);
  where.peer = peer;
  absl::Status result = status;
  result.SetPayload(kPayload, absl::Cord(Encode(where)));
  return result;
}

absl::Status WithPrefix(absl::string_view text, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(text, status.message()));
}

absl::Status WithSuffix(const absl::Status& status, absl::string_view text) {
  return WithMessage(status, absl::StrCat(status.message(), text));
}

std::string DescribeError(const absl::Status& status) {
  const Where where = WhereOf(status);
  if (!where.rank) return std::string(status.message());
  return absl::StrCat(Describe(where), ": ", status.message());
}

std::string EncodeError(const absl::Status& status, size_t most) {
  return absl::StrCat(Encode(WhereOf(status)), "\n", status.message().substr(0, most));
}

absl::Status DecodeError(uint64_t code, absl::string_view encoded) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(encoded, absl::MaxSplits('\n', 1));
  // The words are another process's: no line of them may command the terminal that shows it.
  const std::string words = ToPrintable(parts.second);
  absl::Status status(code >= 1 && code <= kLastCode ? static_cast<absl::StatusCode>(code)
                                                     : absl::StatusCode::kUnknown,
                      words);
  const std::string line = Encode(Decode(parts.first));
  if (!line.empty()) status.SetPayload(kPayload, absl::Cord(line));
  return status;
}

}  // namespace sluice
