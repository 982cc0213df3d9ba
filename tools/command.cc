#include "tools/command.h"

#include <iostream>
#include <string>

namespace sluice {

void PrintError(const absl::Status& status) {
  std::cerr << "sluice: " << std::string(status.message()) << "\n";
}

int Fail(const absl::Status& status) {
  PrintError(status);
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

}  // namespace sluice
