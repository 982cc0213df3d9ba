#include "pipeline/trace/instruction_names.h"

#include <cstddef>
#include <map>
#include <utility>

namespace sluice {
namespace {

class Names {
 public:
  explicit Names(const RankProgram& program) : program_(program) {}

  std::vector<Action> Run() {
    std::vector<Action> names;
    for (const Instruction& instruction : program_.instructions)
      names.push_back(NameOf(instruction));
    // An action begins once its input is there: a receive belongs to the next one.
    Action next;
    for (size_t i = names.size(); i-- > 0;) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.step == Step::kBeginAction)
        next = program_.actions[static_cast<size_t>(instruction.index)];
      if (instruction.step == Step::kWaitReceive) {
        names[i] = {next.op == Op::kForward ? Op::kRecvForward : Op::kRecvBackward, false,
                    next.stage, next.micro_batch};
      }
    }
    return names;
  }

 private:
  Action NameOf(const Instruction& instruction) {
    switch (instruction.step) {
      case Step::kBeginAction:
        begun_ = program_.actions[static_cast<size_t>(instruction.index)];
        return {};
      case Step::kEndAction:
        return begun_;
      case Step::kPostSend: {  // of what the newest action made
        const Op op = begun_.op == Op::kForward ? Op::kSendForward : Op::kSendBackward;
        const Action send{op, false, begun_.stage, instruction.micro_batch};
        sends_[{instruction.index, instruction.message}] = send;
        return send;
      }
      case Step::kWaitSend: {
        Action wait = sends_.at({instruction.index, instruction.message});
        wait.op = wait.op == Op::kSendForward ? Op::kWaitSendForward : Op::kWaitSendBackward;
        return wait;
      }
      case Step::kReduceGradients:
        return ReductionOf(instruction);
      default:
        return {};
    }
  }

  Action ReductionOf(const Instruction& instruction) const {
    const int layer = program_.reductions[static_cast<size_t>(instruction.index)].first;
    auto stage = program_.stages.begin();
    while (stage->last < layer) ++stage;
    return {Op::kReduceGrad, false, static_cast<uint16_t>(stage->stage)};
  }

  const RankProgram& program_;
  Action begun_;
  std::map<std::pair<int, int>, Action> sends_;  // [peer, message]
};

}  // namespace

std::vector<Action> InstructionNames(const RankProgram& program) { return Names(program).Run(); }

}  // namespace sluice
