#include "schedules/action.h"

#include "absl/strings/str_cat.h"

namespace sluice {

const char* OpName(Op op) {
  switch (op) {
    case Op::kIdle:
      return "";
    case Op::kForward:
      return "F";
    case Op::kBackward:
      return "B";
    case Op::kInputGrad:
      return "I";
    case Op::kWeightGrad:
      return "W";
    case Op::kSendForward:
      return "SEND_F";
    case Op::kRecvForward:
      return "RECV_F";
    case Op::kSendBackward:
      return "SEND_B";
    case Op::kRecvBackward:
      return "RECV_B";
    case Op::kReduceGrad:
      return "REDUCE_GRAD";
    case Op::kRecompute:
      return "RECOMPUTE";
    case Op::kOptimizerStep:
      return "OPTIMIZER_STEP";
    case Op::kUnshard:
      return "UNSHARD";
    case Op::kReshard:
      return "RESHARD";
    case Op::kWaitReduceGrad:
      return "WAIT_REDUCE_GRAD";
    case Op::kWaitSendForward:
      return "WAIT_SEND_F";
    case Op::kWaitSendBackward:
      return "WAIT_SEND_B";
  }
  return "?";
}

std::string ToString(const Action& action) {
  if (action.op == Op::kIdle) return "";
  std::string text = absl::StrCat(action.stage, OpName(action.op));
  if (action.micro_batch != Action::kNoMicroBatch) absl::StrAppend(&text, action.micro_batch);
  return text;
}

}  // namespace sluice
