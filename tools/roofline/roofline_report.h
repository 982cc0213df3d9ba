#ifndef SLUICE_TOOLS_ROOFLINE_ROOFLINE_REPORT_H_
#define SLUICE_TOOLS_ROOFLINE_ROOFLINE_REPORT_H_

#include <string>
#include <vector>

#include "models/spec/layer_spec.h"
#include "partitioner/costs/device.h"
#include "partitioner/planning/roofline/roofline.h"
#include "partitioner/planning/roofline/step_launches.h"

namespace sluice {

// The roofline of a training step in bf16, all layers on one device.
struct RooflineReport {
  std::string model;
  DeviceSpec sheet;  // as its data sheet has it
  RecordedTraining training;
  int micro_batches = 1;
  Recompute recompute = Recompute::kNone;
  Queueing queueing = Queueing::kGraphs;
  double model_flops = 0;  // of a step, for the MFU: FlopsPerMicroBatch of each micro-batch
  LaunchSum step;
  std::vector<KindSum> kinds;
  std::vector<LayerGroup> layers;

  // Model FLOPs utilization (PaLM, appendix B) of a step that takes so long.
  double Mfu(double step_seconds) const {
    return model_flops / (step_seconds * sheet.flops(DType::kBFloat16));
  }
};

RooflineReport MakeReport(std::string model, RecordedTraining training, const StepLaunches& step,
                          const DeviceSpec& sheet, int micro_batches, Recompute recompute,
                          Queueing queueing, double model_flops);

// At most 80 columns.
std::string FormatRooflineTable(const RooflineReport& report);
// In seconds, bytes and FLOPs.
std::string FormatRooflineJson(const RooflineReport& report);

}  // namespace sluice

#endif  // SLUICE_TOOLS_ROOFLINE_ROOFLINE_REPORT_H_
