#include "models/spec/profile_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr double kMilli = 1e-3;
// Sums of bytes stay whole numbers of a double's 53 bits.
constexpr double kMostBytes = 1e12;
// So that the picoseconds of thousands of nodes add up in 64 bits.
constexpr double kMostMilliseconds = 1e6;

struct Edge {
  std::string from, to;
  int line = 0;
};

// What the file says, before anything is left out.
struct Document {
  std::vector<ProfileNode> nodes;
  std::map<std::string, int> index;
  std::vector<Edge> edges;
};

class Reader {
 public:
  Reader(absl::string_view file, Document* document) : file_(file), document_(document) {}

  absl::Status ReadLine(absl::string_view line, int number) {
    line_ = number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) return absl::OkStatus();
    return line.front() == '\t' ? ReadEdge(line.substr(1)) : ReadNode(line);
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_, ":", line_, ": ", what));
  }

  absl::Status ReadEdge(absl::string_view line) {
    const std::vector<std::string> ends = absl::StrSplit(line, " -- ");
    if (ends.size() != 2 || ends[0].empty() || ends[1].empty()) {
      return Error("an edge is written <tab>nodeA -- nodeB");
    }
    document_->edges.push_back({ends[0], ends[1], line_});
    return absl::OkStatus();
  }

  absl::Status ReadNode(absl::string_view line) {
    const std::vector<std::string> parts = absl::StrSplit(line, " -- ");
    const bool staged = parts.size() == 4 && absl::StartsWith(parts[3], "stage_id=");
    if (parts.size() != 3 && !staged) {
      return Error("a node is written nodeN -- description -- forward_compute_time=..., ...");
    }
    ProfileNode node;
    node.id = parts[0];
    node.description = parts[1];
    if (absl::Status status = ReadCosts(parts[2], &node); !status.ok()) return status;
    const auto [at, added] =
        document_->index.emplace(node.id, static_cast<int>(document_->nodes.size()));
    if (!added) return Error(absl::StrCat("node '", node.id, "' is given twice"));
    document_->nodes.push_back(std::move(node));
    return absl::OkStatus();
  }

  absl::Status ReadCosts(absl::string_view text, ProfileNode* node) {
    struct Field {
      const char* name;
      double most;
      double* value;
      bool found = false;
    };
    Field fields[] = {
        {"forward_compute_time", kMostMilliseconds, &node->forward_seconds},
        {"backward_compute_time", kMostMilliseconds, &node->backward_seconds},
        {"activation_size", kMostBytes, &node->activation_bytes},
        {"parameter_size", kMostBytes, &node->parameter_bytes},
    };
    for (const absl::string_view part : absl::StrSplit(text, ", ")) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(part, absl::MaxSplits('=', 1));
      Field* field = std::find_if(std::begin(fields), std::end(fields), [&](const Field& known) {
        return pair.first == known.name && !known.found;
      });
      if (field == std::end(fields)) {
        return Error(absl::StrCat("'", part, "' is not expected here, or a second time"));
      }
      field->found = true;
      absl::Status status = ReadNumbers(field->name, pair.second, field->most, field->value);
      if (!status.ok()) return status;
    }
    for (const Field& field : fields) {
      if (!field.found) return Error(absl::StrCat("node '", node->id, "' has no ", field.name));
    }
    node->forward_seconds *= kMilli;
    node->backward_seconds *= kMilli;
    // Whole numbers, whose sums do not depend on their order.
    node->activation_bytes = std::round(node->activation_bytes);
    node->parameter_bytes = std::round(node->parameter_bytes);
    return absl::OkStatus();
  }

  // A number, or the sum of [a; b; c].
  absl::Status ReadNumbers(const char* name, absl::string_view text, double most, double* sum) {
    if (absl::ConsumePrefix(&text, "[") && !absl::ConsumeSuffix(&text, "]")) {
      return Error(absl::StrCat(name, " opens a [ that is not closed"));
    }
    for (const absl::string_view part : absl::StrSplit(text, "; ")) {
      double number = 0;
      if (!absl::SimpleAtod(part, &number) || !(number >= 0 && number <= most)) {
        return Error(absl::StrCat(name, " is '", part, "'; expected a number from 0 to ", most));
      }
      *sum += number;
    }
    return absl::OkStatus();
  }

  absl::string_view file_;
  Document* document_;
  int line_ = 0;
};

absl::Status Connect(absl::string_view file, Document* document) {
  std::set<std::pair<int, int>> known;
  for (const Edge& edge : document->edges) {
    const auto from = document->index.find(edge.from), to = document->index.find(edge.to);
    for (const auto& [end, name] : {std::pair{from, &edge.from}, std::pair{to, &edge.to}}) {
      if (end != document->index.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file, ":", edge.line, ": there is no node '", *name, "'"));
    }
    if (!known.emplace(from->second, to->second).second) {
      return absl::InvalidArgumentError(absl::StrCat(file, ":", edge.line, ": the edge ", edge.from,
                                                     " -- ", edge.to, " is given twice"));
    }
  }
  for (const auto& [from, to] : known) {
    document->nodes[from].users.push_back(to);
    document->nodes[to].sources.push_back(from);
  }
  return absl::OkStatus();
}

bool IsNoWork(const ProfileNode& node) {
  return (node.sources.empty() && absl::StartsWith(node.description, "Input")) ||
         (node.users.empty() && absl::StartsWith(node.description, "__getitem__"));
}

// An order with sources first, by number of node where there is a choice; nodes in a cycle or after
// one are left out.
std::vector<int> SourcesFirst(const std::vector<ProfileNode>& nodes) {
  std::vector<size_t> waiting;
  std::set<int> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    waiting.push_back(nodes[i].sources.size());
    if (nodes[i].sources.empty()) ready.insert(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(node);
    for (const int user : nodes[node].users) {
      if (--waiting[user] == 0) ready.insert(user);
    }
  }
  return order;
}

// Among the nodes that `order` lacks, each has a source that it lacks as well: backwards from one
// of them, the first that comes again is in a cycle.
absl::Status CycleError(absl::string_view file, const Document& document,
                        const std::vector<int>& order) {
  const std::vector<ProfileNode>& nodes = document.nodes;
  std::vector<bool> ordered(nodes.size()), seen(nodes.size());
  for (const int node : order) ordered[node] = true;
  auto node = static_cast<int>(std::find(ordered.begin(), ordered.end(), false) - ordered.begin());
  while (!seen[node]) {
    seen[node] = true;
    const std::vector<int>& sources = nodes[node].sources;
    node = *std::find_if(sources.begin(), sources.end(), [&](int at) { return !ordered[at]; });
  }
  const auto closes = [&](const Edge& edge) {
    const int from = document.index.at(edge.from);
    return edge.to == nodes[node].id && !ordered[from] && seen[from];
  };
  const auto edge = std::find_if(document.edges.begin(), document.edges.end(), closes);
  return absl::InvalidArgumentError(absl::StrCat(file, ":", edge->line, ": the edge ", edge->from,
                                                 " -- ", edge->to, " is part of a cycle"));
}

// The nodes that work, in `order`, numbered anew.
ProfileGraph KeepWork(const std::vector<ProfileNode>& nodes, const std::vector<int>& order) {
  std::vector<int> number(nodes.size(), -1);
  ProfileGraph graph;
  for (const int node : order) {
    if (IsNoWork(nodes[node])) continue;
    number[node] = static_cast<int>(graph.nodes.size());
    graph.nodes.push_back(nodes[node]);
  }
  for (ProfileNode& node : graph.nodes) {
    for (std::vector<int>* ends : {&node.sources, &node.users}) {
      std::vector<int> kept;
      for (const int end : *ends) {
        if (number[end] >= 0) kept.push_back(number[end]);
      }
      std::sort(kept.begin(), kept.end());
      *ends = std::move(kept);
    }
  }
  return graph;
}

}  // namespace

bool ProfileGraph::IsChain() const {
  for (size_t i = 1; i < nodes.size(); ++i) {
    const std::vector<int>& sources = nodes[i].sources;
    if (sources.empty() || sources.back() != static_cast<int>(i) - 1) return false;
  }
  return true;
}

absl::StatusOr<ProfileGraph> ParseProfileGraph(absl::string_view text, absl::string_view file) {
  Document document;
  Reader reader(file, &document);
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::Status status = reader.ReadLine(line, ++number); !status.ok()) return status;
  }
  if (absl::Status status = Connect(file, &document); !status.ok()) return status;
  const std::vector<int> order = SourcesFirst(document.nodes);
  if (order.size() < document.nodes.size()) return CycleError(file, document, order);
  ProfileGraph graph = KeepWork(document.nodes, order);
  if (graph.nodes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": no nodes; expected a PipeDream profile (graph.txt)"));
  }
  return graph;
}

}  // namespace sluice
