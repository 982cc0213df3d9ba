#include "pipeline/audit/verdict.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

Verdict Lies(int rank, std::string why) { return {.suspects = {rank}, .why = std::move(why)}; }

std::string Agrees(int rank, const char* when, int other) {
  return absl::StrCat("rank ", rank, ", ", when, ", has the bits of rank ", other);
}

}  // namespace

std::string DifferenceOf(const StageHashes& claimed, const StageHashes& computed) {
  if (claimed.weights != computed.weights) return "weights";
  if (claimed.input != computed.input) return "input";
  if (claimed.output_grad != computed.output_grad) return "output gradient";
  if (claimed.output != computed.output) return "output";
  if (claimed.input_grad != computed.input_grad) return "input gradient";
  return claimed.gradients != computed.gradients ? "weight gradients" : "";
}

Verdict Judge(const AuditAnswers& answers) {
  const int audited = answers.audited;
  const int auditor = answers.auditor;
  constexpr char kThird[] = "which computed it as a third";
  constexpr char kAgain[] = "asked again";
  if (answers.third >= 0 && answers.third_computed == answers.computed)
    return Lies(audited, Agrees(answers.third, kThird, auditor));
  if (answers.third >= 0 && answers.third_computed == answers.claimed)
    return Lies(auditor, Agrees(answers.third, kThird, audited));
  const bool audited_yields = answers.claimed_again == answers.computed;
  const bool auditor_yields = answers.computed_again == answers.claimed;
  if (audited_yields != auditor_yields) {
    return audited_yields ? Lies(audited, Agrees(audited, kAgain, auditor))
                          : Lies(auditor, Agrees(auditor, kAgain, audited));
  }
  const bool audited_repeats = answers.claimed_again == answers.claimed;
  const bool auditor_repeats = answers.computed_again == answers.computed;
  if (audited_repeats != auditor_repeats) {
    const int liar = audited_repeats ? auditor : audited;
    return Lies(liar, absl::StrCat("rank ", liar, ", asked again, has other bits than before"));
  }
  Verdict verdict{.suspects = {audited, auditor}};
  if (answers.third >= 0) {
    verdict.suspects.push_back(answers.third);
    verdict.why =
        absl::StrCat("rank ", answers.third, ", which computed it as a third, agrees with neither");
  } else {
    verdict.why = "there is no third rank to ask";
  }
  absl::StrAppend(&verdict.why, audited_repeats ? ", and both of them repeat their bits"
                                                : ", and neither of them repeats its bits");
  return verdict;
}

}  // namespace sluice
