#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "comm/where.h"

namespace sluice {
namespace {

constexpr char kExitCodePayload[] = "sluice/exit-code";

}  // namespace

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  status.SetPayload(kExitCodePayload, absl::Cord(absl::StrCat(static_cast<int>(code))));
  return status;
}

void PrintError(const absl::Status& status) { PrintNotice(DescribeError(status)); }

void PrintNotice(const std::string& text) { std::cerr << "sluice: " << text << "\n"; }

int ExitCodeOf(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kExitCodePayload)) {
    return std::stoi(std::string(*payload));
  }
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
