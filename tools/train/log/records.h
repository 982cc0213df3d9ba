#ifndef SLUICE_TOOLS_TRAIN_LOG_RECORDS_H_
#define SLUICE_TOOLS_TRAIN_LOG_RECORDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "pipeline/train/metrics.h"
#include "pipeline/train/run.h"

namespace sluice {

// What a run tells of a step or of an evaluation, in the order and with the names of
// `sluice train --json`, in SI base units.
using LogRecord = nlohmann::ordered_json;

// `mirror_bytes`: of each rank, part of its arena; empty without a mirror.
LogRecord StepRecord(const StepMetrics& metrics, const std::vector<int64_t>& mirror_bytes);
LogRecord EvaluationRecord(const Evaluation& evaluation);
LogRecord ToRecord(const Staleness& staleness);
// `share`: of the time of all steps.
LogRecord ToRecord(const AuditCost& cost, double share);

// [rank] of a plan with mirrors; empty of others.
std::vector<int64_t> MirrorBytes(const RunPlan& plan);

// Nine significant digits tell any two fp32 losses apart.
double NineDigits(double value);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_RECORDS_H_
