#ifndef SLUICE_PIPELINE_TRACE_INSTRUCTION_NAMES_H_
#define SLUICE_PIPELINE_TRACE_INSTRUCTION_NAMES_H_

#include <vector>

#include "pipeline/compile/plan/program.h"
#include "schedules/action.h"

namespace sluice {

// [instruction] the action of a lowered timetable that it is: SEND_F and SEND_B, RECV_F and RECV_B
// (the wait for it), WAIT_SEND_F and WAIT_SEND_B, REDUCE_GRAD; for the end of an action, that
// action. Idle for all others.
std::vector<Action> InstructionNames(const RankProgram& program);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_INSTRUCTION_NAMES_H_
