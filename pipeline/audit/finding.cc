#include "pipeline/audit/finding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/where.h"

namespace sluice {

absl::Status DescribeFinding(const AuditFinding& finding, int64_t step) {
  const std::vector<int>& suspects = finding.verdict.suspects;
  const bool tells = suspects.size() == 1;
  const std::string ranks = absl::StrCat("rank ", absl::StrJoin(suspects, " or rank "));
  Where where{.stage = finding.stage,
              .micro_batch = finding.micro_batch,
              .moment = Where::Moment::kAudit,
              .step = step};
  if (tells) where.rank = suspects.front();
  const char* const advice =
      tells ? "; nothing is saved any more; test the processor and the memory of its machine, and "
              "go on without that"
            : "; nothing is saved any more; test the processors and the memory of their machines, "
              "and go on with three ranks or more, which can tell who it is";
  return WithWhere(
      absl::DataLossError(absl::StrCat(
          tells ? "" : absl::StrCat("audit of step ", step, ": "), "the hardware of ", ranks,
          " computes wrong: rank ", finding.audited, " and rank ", finding.auditor,
          " have different bits of the ", finding.difference, " of stage ", finding.stage,
          ", micro-batch ", finding.micro_batch, ", and ", finding.verdict.why, advice)),
      where);
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
