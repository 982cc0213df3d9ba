#ifndef SLUICE_MODELS_SPEC_PROFILE_GRAPH_H_
#define SLUICE_MODELS_SPEC_PROFILE_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// One measured operation of a model, for one micro-batch.
struct ProfileNode {
  std::string id;           // "node12"
  std::string description;  // "Conv2d(64, 128, ...)"
  double forward_seconds = 0;
  double backward_seconds = 0;
  double activation_bytes = 0;  // of all its outputs
  double parameter_bytes = 0;
  std::vector<int> sources, users;  // indices, ascending

  double seconds() const { return forward_seconds + backward_seconds; }
};

// A model as a graph of operations, sources before their users.
struct ProfileGraph {
  std::vector<ProfileNode> nodes;

  // Whether each node uses the one before it, so that there is but one order; it may use others
  // before as well.
  bool IsChain() const;
};

// A PipeDream profile (msr-fiddle/pipedream, profiler/*/profiles/*/graph.txt): lines
//   nodeN -- description -- forward_compute_time=ms, backward_compute_time=ms,
//            activation_size=bytes or [bytes; bytes], parameter_size=bytes[ -- stage_id=K]
//   <tab>nodeA -- nodeB        nodeB uses nodeA's output
// in any order. Bytes are rounded to whole ones. As PipeDream's optimizer does, it leaves out what
// is no work of the model: sources described Input... (the data loader) and __getitem__s that
// nobody uses. InvalidArgument names `file` and the line: of any other shape, a node or edge given
// twice, an edge to a node that is not there, a negative or infinite number, a cycle; also where no
// nodes are left.
absl::StatusOr<ProfileGraph> ParseProfileGraph(absl::string_view text, absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_PROFILE_GRAPH_H_
