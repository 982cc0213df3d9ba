#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/printable.h"
#include "comm/where.h"

namespace sluice {
namespace {

constexpr char kExitCodePayload[] = "sluice/exit-code";
// Bytes of a message: what was given is quoted in it, and may be of any length.
constexpr size_t kLongestMessage = 2000;
constexpr size_t kShownEnd = 600;

bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xC0U) != 0x80U; }

// Without the middle of a text that is too long: a message begins with where something is wrong, and
// ends with what is expected. `text` is UTF-8.
std::string Shortened(const std::string& text) {
  if (text.size() <= kLongestMessage) return text;
  size_t from = kLongestMessage - kShownEnd, to = text.size() - kShownEnd;
  while (!BeginsCharacter(text[from])) --from;
  while (!BeginsCharacter(text[to])) ++to;
  return absl::StrCat(text.substr(0, from), " ... (", to - from, " bytes are left out) ... ",
                      text.substr(to));
}

}  // namespace

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  status.SetPayload(kExitCodePayload, absl::Cord(absl::StrCat(static_cast<int>(code))));
  return status;
}

std::string ExitCodeTable() {
  std::string table;
  for (const auto& [code, meaning] : kExitCodeMeanings) {
    absl::StrAppendFormat(&table, "  %-3d  %s\n", code, meaning);
  }
  return table;
}

void PrintError(const absl::Status& status) {
  // There was no memory for words.
  const bool speechless = absl::IsResourceExhausted(status) && status.message().empty();
  PrintNotice(speechless ? "out of memory" : DescribeError(status));
}

std::string NoticeLine(const std::string& text) {
  return absl::StrCat("sluice: ", Shortened(ToPrintableLine(text)), "\n");
}

void PrintNotice(const std::string& text) { std::cerr << NoticeLine(text); }

int ExitCodeOf(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kExitCodePayload)) {
    return std::stoi(std::string(*payload));
  }
  // A rank whose hardware computes wrong is as good as lost.
  if (WhereOf(status).moment == Where::Moment::kAudit) return kExitPeerLost;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitPeerLost;
    case absl::StatusCode::kResourceExhausted:
      return kExitOutOfMemory;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitBadInput;
  }
}

int Fail(const absl::Status& status) {
  PrintError(status);
  return ExitCodeOf(status);
}

absl::Status CheckJsonFlag(bool json, const std::string& format) {
  if (!json || format == "text" || format == "json") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--json is short for --format json, and --format ",
                                                 format, " is given, too; leave one of them out"));
}

CLI::Validator WholeSeed() {
  const auto check = [](const std::string& text) -> std::string {
    uint64_t seed = 0;
    if (absl::SimpleAtoi(text, &seed) || absl::SimpleHexAtoi(text, &seed)) return "";
    return absl::StrCat("'", text, "' is no seed; expected a whole number from 0 to ",
                        std::numeric_limits<uint64_t>::max());
  };
  return CLI::Validator(check, "UINT64");
}

CLI::Validator FiniteNumber(double most) {
  const auto check = [most](const std::string& text) -> std::string {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return "";  // for the conversion to refuse
    if (!std::isfinite(value)) return absl::StrCat(text, " is not a finite number");
    if (std::abs(value) <= most) return "";
    return absl::StrCat(text, " is too large; expected at most ", most);
  };
  return CLI::Validator(check, "FINITE");
}

}  // namespace sluice
