#include "pipeline/audit/finding.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/where.h"

namespace sluice {
namespace {

// How to learn which of several ranks it is.
const char* Advice(AuditFinding::Kind kind) {
  switch (kind) {
    case AuditFinding::Kind::kMicroBatch:
      return "; of three ranks or more, audits can tell which it is";
    case AuditFinding::Kind::kWeights:
      return "; of three replicas or more, audits can tell which it is";
    case AuditFinding::Kind::kMessage:
      return "";
  }
  return "";
}

}  // namespace

absl::Status DescribeFinding(const AuditFinding& finding, int64_t step) {
  const std::vector<int>& suspects = finding.verdict.suspects;
  const bool tells = suspects.size() == 1;
  const std::string ranks = absl::StrCat("rank ", absl::StrJoin(suspects, " or rank "));
  Where where{.stage = finding.stage, .moment = Where::Moment::kAudit, .step = step};
  if (finding.micro_batch >= 0) where.micro_batch = finding.micro_batch;
  if (tells) where.rank = suspects.front();
  std::string text = absl::StrCat(
      tells ? "" : absl::StrCat("audit of step ", step, ": "), "the hardware of ", ranks,
      " computes wrong: rank ", finding.audited, " and rank ", finding.auditor,
      finding.kind == AuditFinding::Kind::kWeights ? ", which make the same updates," : "",
      " have different bits of the ", finding.difference, " of stage ", finding.stage);
  if (finding.micro_batch >= 0) absl::StrAppend(&text, ", micro-batch ", finding.micro_batch);
  if (finding.kind == AuditFinding::Kind::kMessage)
    absl::StrAppend(&text, ", which the first has sent to the second");
  absl::StrAppend(&text, ", and ", finding.verdict.why, "; nothing is saved any more; ",
                  tells ? "test the processor and the memory of its machine, and go on without that"
                        : "test the processors and the memory of their machines",
                  tells ? "" : Advice(finding.kind));
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
