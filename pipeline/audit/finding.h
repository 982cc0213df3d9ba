#ifndef SLUICE_PIPELINE_AUDIT_FINDING_H_
#define SLUICE_PIPELINE_AUDIT_FINDING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "pipeline/audit/audits.h"

namespace sluice {

// DataLoss, with the facts (Where): the rank whose hardware lies, unless it is one of several, the
// stage, the micro-batch and the step, at the moment kAudit.
absl::Status DescribeFinding(const AuditFinding& finding, int64_t step);

// Likewise of weights that have changed by step `step` although nothing had written to them since
// the last update.
absl::Status DescribeBrokenWeight(int rank, const std::string& parameter, int64_t step);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_FINDING_H_
