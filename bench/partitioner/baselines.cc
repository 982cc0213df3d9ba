// partition_baselines FOLDER: the plans of other systems' rules for PipeDream's six profiles,
// compared with the optimum over every cut. FOLDER has vgg16.txt and the others.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "bench/partitioner/rules.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"
#include "partitioner/search/graph_partition.h"

namespace sluice {
namespace {

constexpr const char* kProfiles[] = {"alexnet",     "vgg16",        "resnet50",
                                     "densenet121", "inception_v3", "gnmt"};
constexpr int kDevices[] = {2, 3, 4, 6, 8, 12, 16};
struct Bandwidth {
  const char* name;
  double value;
};
constexpr Bandwidth kBandwidths[] = {
    {"no limit", std::numeric_limits<double>::infinity()}, {"12 GB/s", 12e9}, {"1 GB/s", 1e9}};

// How much one rule lost over all rows.
struct Losses {
  const char* name;
  std::vector<GraphStage> (*rule)(const GraphRequest& request);
  std::vector<double> ratios = {};
  int none = 0;
  std::string worst = "";

  std::string Add(const GraphRequest& request, double least, const std::string& where) {
    const std::vector<GraphStage> stages = rule(request);
    if (stages.empty()) {
      ++none;
      return fmt::format("{:>20}", "-");
    }
    const double bottleneck = GraphBottleneck(request, stages);
    const double ratio = bottleneck / least;
    if (ratios.empty() || ratio > *std::max_element(ratios.begin(), ratios.end())) worst = where;
    ratios.push_back(ratio);
    return fmt::format("{:>11.6f} {:>+7.1f}%", bottleneck, 100 * (ratio - 1));
  }

  void Print() {
    constexpr double kSame = 1e-9;
    std::sort(ratios.begin(), ratios.end());
    const auto below =
        std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio < 1 - kSame; });
    const auto above =
        std::count_if(ratios.begin(), ratios.end(), [](double ratio) { return ratio > 1 + kSame; });
    fmt::print(
        "{:<12} {:>4} answers, {:>3} without; below sluice {}, equal {}, above {}; median "
        "{:+.1f} %, worst {:+.1f} % ({})\n",
        name, ratios.size(), none, below, static_cast<long>(ratios.size()) - below - above, above,
        100 * (ratios[ratios.size() / 2] - 1), 100 * (ratios.back() - 1), worst);
  }
};

std::vector<GraphStage> PipeDreamRule(const GraphRequest& request) {
  return PipeDreamStages(request);
}

absl::StatusOr<ProfileGraph> Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return ParseProfileGraph(text.str(), path);
}

void Compare(const std::string& name, const ProfileGraph& graph, std::vector<Losses>* rules) {
  for (const Bandwidth& bandwidth : kBandwidths) {
    for (const int devices : kDevices) {
      GraphRequest request;
      request.graph = &graph;
      request.devices = devices;
      request.machines.link.bandwidth = bandwidth.value;
      const absl::StatusOr<GraphPlan> plan = FindGraphPartition(request);
      if (!plan.ok()) continue;  // fewer nodes than devices
      const double least = plan->bottleneck_seconds;
      std::string row =
          fmt::format("{:<13} {:>8} {:>4} {:>11.6f}", name, bandwidth.name, devices, least);
      const std::string where = fmt::format("{}, {}, {} devices", name, bandwidth.name, devices);
      for (Losses& rule : *rules) row += rule.Add(request, least, where);
      fmt::print("{}\n", row);
    }
  }
}

int Run(const std::string& folder) {
  std::vector<Losses> rules = {{"PipeDream", PipeDreamRule},
                               {"torchgpipe", TorchgpipeBlocks},
                               {"DeepSpeed", DeepSpeedParameters}};
  fmt::print("Bottleneck in seconds a micro-batch, one device a stage; % above sluice's.\n\n");
  fmt::print("{:<13} {:>8} {:>4} {:>11}{:>20}{:>20}{:>20}\n", "profile", "between", "on", "sluice",
             "PipeDream", "torchgpipe", "DeepSpeed");
  for (const char* name : kProfiles) {
    const absl::StatusOr<ProfileGraph> graph = Read(folder + "/" + name + ".txt");
    if (!graph.ok()) {
      fmt::print(stderr, "{}\n", std::string(graph.status().message()));
      return 2;
    }
    Compare(name, *graph, &rules);
  }
  fmt::print("\n-: no answer (a stage would be empty; PipeDream: more than 4000 sets to grow)\n");
  for (Losses& rule : rules) rule.Print();
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: partition_baselines FOLDER, which holds vgg16.txt and the others\n", stderr);
    return 2;
  }
  return sluice::Run(argv[1]);
}
