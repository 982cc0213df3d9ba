#ifndef SLUICE_TESTS_PIPELINE_DECODER_RUNS_H_
#define SLUICE_TESTS_PIPELINE_DECODER_RUNS_H_

#include <ostream>
#include <string>
#include <vector>

#include "tests/pipeline/small_run.h"

namespace sluice {

// A way to train a decoder, in one go or resumed after the first step.
struct DecoderRun {
  SmallRun run;
  bool resumed = false;

  std::string Name() const { return run.Name() + (resumed ? "_resumed" : ""); }
};

inline void PrintTo(const DecoderRun& run, std::ostream* out) { *out << run.Name(); }

// That many different ones, drawn from every model, schedule, number of ranks and chunks, partition,
// policy, type, number of threads, and way to have replicas. Each compiles.
std::vector<DecoderRun> RandomDecoderRuns(int count);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_DECODER_RUNS_H_
