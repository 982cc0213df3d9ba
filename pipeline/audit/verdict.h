#ifndef SLUICE_PIPELINE_AUDIT_VERDICT_H_
#define SLUICE_PIPELINE_AUDIT_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/run/stage_digest.h"

namespace sluice {

// Who computed one micro-batch of a stage, and what. All ranks are of the world.
struct AuditAnswers {
  int audited = 0;            // holds the stage
  int auditor = 0;            // computed it again, with what the audited rank sent
  StageHashes claimed = {};   // by the audited rank, in the step
  StageHashes computed = {};  // by the auditor, after it
  // Both once more, and another rank, where there is one.
  StageHashes claimed_again = {};
  StageHashes computed_again = {};
  int third = -1;
  StageHashes third_computed = {};
};

struct Verdict {
  // One: it computes wrong. Several: one of them does, and nothing tells which.
  std::vector<int> suspects;
  std::string why = {};  // in words
};

// What `claimed` and `computed` differ in, the first of "weights", "input", "output gradient",
// "output", "input gradient" and "weight gradients"; "" where they are equal.
std::string DifferenceOf(const StageHashes& claimed, const StageHashes& computed);

// Who lies where `claimed` and `computed` differ: the one that the third rank contradicts; without
// an answer to that, the one who, asked again, agrees with the other, or does not repeat itself.
Verdict Judge(const AuditAnswers& answers);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_AUDIT_VERDICT_H_
