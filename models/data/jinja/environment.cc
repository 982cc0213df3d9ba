#include "models/data/jinja/environment.h"

namespace sluice::jinja {
namespace {

constexpr int64_t kMostSteps = 50'000'000;          // of one conversation
constexpr size_t kLongestText = size_t{256} << 20;  // bytes that are written

}  // namespace

absl::Status RunAll(const std::vector<Statement>& statements, Environment& environment) {
  for (const Statement& statement : statements) {
    if (environment.control != LoopControl::kNone) return absl::OkStatus();
    if (++environment.steps > kMostSteps || environment.out.text.size() > kLongestText) {
      return absl::InvalidArgumentError("the template does not end");
    }
    if (absl::Status status = statement(environment); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice::jinja
