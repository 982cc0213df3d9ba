#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_AUDIT_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_AUDIT_H_

#include <vector>

#include "pipeline/compile/plan/run_plan.h"

namespace sluice {

// One for each stage of the timetable; empty where the plan has no audits. Needs the plan's layers.
std::vector<StageAudit> CompileAudits(const RunPlan& plan);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_AUDIT_H_
