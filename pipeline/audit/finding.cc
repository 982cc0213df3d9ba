#include "pipeline/audit/finding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/where.h"

namespace sluice {

absl::Status DescribeFinding(const AuditFinding& finding, int64_t step) {
  const std::vector<int>& suspects = finding.verdict.suspects;
  const bool tells = suspects.size() == 1;
  const std::string ranks = absl::StrCat("rank ", absl::StrJoin(suspects, " or rank "));
  const bool of_weights = finding.micro_batch < 0;
  Where where{.stage = finding.stage, .moment = Where::Moment::kAudit, .step = step};
  if (!of_weights) where.micro_batch = finding.micro_batch;
  if (tells) where.rank = suspects.front();
  std::string text =
      absl::StrCat(tells ? "" : absl::StrCat("audit of step ", step, ": "), "the hardware of ",
                   ranks, " computes wrong: rank ", finding.audited, " and rank ", finding.auditor);
  if (of_weights) {
    absl::StrAppend(&text, ", which make the same updates, have different bits of the weights");
  } else {
    absl::StrAppend(&text, " have different bits of the ", finding.difference);
  }
  absl::StrAppend(&text, " of stage ", finding.stage,
                  of_weights ? "" : absl::StrCat(", micro-batch ", finding.micro_batch), ", and ",
                  finding.verdict.why, "; nothing is saved any more; ",
                  tells ? "test the processor and the memory of its machine, and go on without that"
                        : "test the processors and the memory of their machines; three ranks, or "
                          "three replicas where weights differ, can tell who it is");
  return WithWhere(absl::DataLossError(text), where);
}

absl::Status DescribeBrokenWeight(int rank, const std::string& parameter, int64_t step) {
  return WithWhere(
      absl::DataLossError(absl::StrCat(
          "the memory of rank ", rank, " does not keep what is written to it: ", parameter,
          " has other bits than the last update left, and nothing else writes to it; nothing is "
          "saved any more; test the memory of its machine, and go on without that")),
      {.rank = rank, .moment = Where::Moment::kAudit, .step = step});
}

}  // namespace sluice
