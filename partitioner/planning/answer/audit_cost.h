#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_AUDIT_COST_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_AUDIT_COST_H_

#include <functional>

#include "absl/status/status.h"
#include "partitioner/machines.h"
#include "partitioner/planning/plan/plan.h"
#include "pipeline/compile/plan/run_request.h"

namespace sluice {

// Adds what audits take (RunRequest::audit_every, above 0) to `plan`, whose peak_bytes are those of
// the run that is asked for: audit_seconds to its step, and of the bytes says which are theirs.
//
// In each step a rank hashes its weights twice, after the update and before the next one. Every so
// many steps, and counted here in the mean over all of them, each rank sends one micro-batch of a
// stage to another rank, which computes it again, forward and backward, with nothing recomputed; all
// ranks wait for the slowest. Over the audited steps a rank's stages have their turn. What is sent
// are the weights, what the micro-batch came with and, where gradients accumulate, those before it.
// `memory_bandwidth`: bytes per second that hashing and copying reach.
//
// The search knows nothing of this, since it is little beside a step: the plan is the best one without
// audits, and the bound says how far it may be from the best one with them. It grows by AuditFloor,
// `most_stages` being the most that any plan could have had; 0: by nothing, where plans of other
// machines were tried, too. DeadlineExceeded once `stop` says so.
absl::Status AddAudits(const RunRequest& request, const Machines& machines, double memory_bandwidth,
                       int most_stages, const std::function<bool()>& stop, Plan* plan);

// Seconds per step that audits take at least, however the layers are cut into at most so many stages
// and dealt to ranks: of the stages that are computed again at the same time the slowest counts, and
// in the mean over all turns that is no less than the mean of all stages.
double AuditFloor(const Machines& machines, int most_stages, int audit_every);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_AUDIT_COST_H_
