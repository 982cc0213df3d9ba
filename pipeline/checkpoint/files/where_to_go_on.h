#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_WHERE_TO_GO_ON_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_WHERE_TO_GO_ON_H_

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Where a run goes on whose command names `path` at every start of it: `path` itself, or "" where
// there never was a checkpoint; the directory of a step's folder that is gone, where a later step
// is: the run has removed what it began with. NotFound where the steps there are all earlier; other
// errors are HasCheckpoint's.
absl::StatusOr<std::string> WhereToGoOn(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_WHERE_TO_GO_ON_H_
