#include "comm/nccl/nccl_api.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::string_view Meaning(NcclResult result) {
  switch (result) {
    case NcclResult::kCudaError:
      return "a CUDA call failed";
    case NcclResult::kSystemError:
      return "a system call failed";
    case NcclResult::kInvalidArgument:
      return "an invalid argument";
    case NcclResult::kInvalidUsage:
      return "an invalid use of NCCL";
    case NcclResult::kRemoteError:
      return "the other rank is lost";
    case NcclResult::kInProgress:
      return "still in progress";
    default:
      return "an internal error";
  }
}

absl::StatusCode CodeOf(NcclResult result) {
  switch (result) {
    case NcclResult::kCudaError:
    case NcclResult::kSystemError:
    case NcclResult::kInternalError:  // what NCCL says of some lost peers, too
    case NcclResult::kRemoteError:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status NcclStatus(NcclResult result, absl::string_view what, absl::string_view said) {
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  const absl::string_view words = absl::StripAsciiWhitespace(said);
  return absl::Status(CodeOf(result), absl::StrCat(what, ": NCCL says: ", Meaning(result),
                                                   words.empty() ? "" : ": ", words));
}

}  // namespace sluice
