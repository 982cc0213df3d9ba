#ifndef SLUICE_MODELS_SPEC_GIT_LFS_H_
#define SLUICE_MODELS_SPEC_GIT_LFS_H_

#include "absl/strings/string_view.h"

namespace sluice {

// What git leaves in the place of a large file that was not fetched begins so.
inline constexpr absl::string_view kLfsPointer = "version https://git-lfs.github.com/spec/v1";
// Of such a file, behind its name.
inline constexpr absl::string_view kIsLfsPointer =
    "is a Git LFS pointer and not the file itself; fetch that with git lfs pull";

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_GIT_LFS_H_
