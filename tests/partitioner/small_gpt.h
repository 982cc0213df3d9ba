#ifndef SLUICE_TESTS_PARTITIONER_SMALL_GPT_H_
#define SLUICE_TESTS_PARTITIONER_SMALL_GPT_H_

#include "models/spec/presets.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/planning/question/question.h"

namespace sluice {

// Two A100 that train a small transformer.
inline PlanQuestion SmallGptOnTwoDevices() {
  DecoderConfig gpt;
  gpt.layers = 4;
  gpt.dim = 768;
  gpt.heads = 4;
  gpt.max_seq = 256;
  gpt.vocab = 65;
  PlanQuestion question;
  question.model = "small";
  question.subject = ModelSpec{"small", gpt};
  question.device = *DataSheetDevice("a100");
  question.devices = 2;
  question.micro_batches = 2;
  return question;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_SMALL_GPT_H_
