#include "tests/pipeline/program_listing.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

std::string Name(BufferId buffer) { return buffer == kNoBuffer ? "-" : absl::StrCat("b", buffer); }

std::string Message(const char* what, const Instruction& i, const char* arrow) {
  return absl::StrCat(what, " ", i.index, " #", i.message, " ", arrow, " ", Name(i.buffer));
}

std::string Line(const RankProgram& program, const Instruction& i) {
  const auto at = static_cast<size_t>(i.index);
  switch (i.step) {
    case Step::kBeginAction:
      return absl::StrCat("begin ", ToString(program.actions[at]));
    case Step::kEndAction:
      return "end";
    case Step::kPostReceive:
      return Message("post receive", i, "->");
    case Step::kWaitReceive:
      return Message("wait receive", i, "->");
    case Step::kPostSend:
      return Message("post send", i, "<-");
    case Step::kWaitSend:
      return Message("wait send", i, "<-");
    case Step::kLoadInput:
      return absl::StrCat("load input ", i.micro_batch, " -> ", Name(i.buffer));
    case Step::kLoadTargets:
      return absl::StrCat("load targets ", i.micro_batch, " -> ", Name(i.buffer));
    case Step::kLoadStarts:
      return absl::StrCat("load starts ", i.micro_batch, " -> ", Name(i.buffer));
    case Step::kAddGroup:
      return absl::StrCat("add group ", i.index);
    case Step::kReduceGradients:
      return absl::StrCat("reduce ", i.index);
    case Step::kUpdateWeights:
      return absl::StrCat("update ", i.index);
    default:
      break;
  }
  const CallBuffers& call = program.calls[at];
  switch (i.step) {
    case Step::kForward:
      return absl::StrCat("F ", call.layer, " (", Name(call.input), ") -> ", Name(call.output));
    case Step::kRestore:
      return absl::StrCat("restore ", call.layer);
    case Step::kBackwardInput:
      return absl::StrCat("I ", call.layer, " (", Name(call.output_grad), ") -> ",
                          Name(call.input_grad));
    default:
      return absl::StrCat("W ", call.layer, call.accumulate ? " +" : "");
  }
}

}  // namespace

std::vector<std::string> List(const RankProgram& program) {
  std::vector<std::string> lines;
  for (const Instruction& instruction : program.instructions) {
    lines.push_back(Line(program, instruction));
  }
  return lines;
}

}  // namespace sluice
