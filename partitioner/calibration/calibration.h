#ifndef SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_H_
#define SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "partitioner/calibration/calibration_rows.h"
#include "partitioner/costs/cluster.h"

namespace sluice {

// One of the few numbers that a data sheet does not tell.
struct CalibratedConstant {
  const char* name;
  const char* what;     // for people
  double expected = 0;  // before anything is measured
  double value = 0;
};

struct CalibratedStep {
  MeasuredStep measured;
  double predicted = 0;  // seconds, by constants fitted to all steps
  // By constants fitted to the steps of the other models only.
  std::optional<double> held_out;
};

// The constants that fit measured steps best, and how well.
struct Calibration {
  ClusterSpec cluster;  // the given one with the constants in place
  std::vector<CalibratedConstant> constants;
  std::vector<CalibratedStep> steps;
  int models = 0;
  // Mean over steps of |predicted / measured - 1|, and the same of held_out where there is more
  // than one model.
  double error = 0;
  std::optional<double> held_out_error;
};

// Fits seven constants: the efficiency and half-size of products, the efficiency of memory, the
// overhead of a kernel, what is reached of the bandwidth inside a node and of the network cards,
// and the latency of a message. `hardware` has data-sheet rates, which they scale; its efficiencies
// are not used. Minimised (BOBYQA, Powell 2009, by NLopt) is
//   sum over steps of rho(log(predicted / measured) / 0.08) + sum over constants of
//   (log(value / expected) / spread)^2,   rho(r) = 2 sqrt(1 + r^2) - 2,
// so that no single step decides much, and a constant on which the steps say nothing stays what is
// expected of it. Deterministic. InvalidArgument when there are no steps, one has no timetable,
// the cluster has several kinds of devices, no bandwidth to scale, or rates that make no sense.
absl::StatusOr<Calibration> Calibrate(absl::Span<const MeasuredStep> steps,
                                      const ClusterSpec& hardware);

// [step] seconds, with the cluster's constants as they are. InvalidArgument as Calibrate.
absl::StatusOr<std::vector<double>> PredictSteps(absl::Span<const MeasuredStep> steps,
                                                 const ClusterSpec& cluster);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_H_
