#include "models/failpoints/failpoints.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#ifdef SLUICE_FAILPOINTS
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "absl/time/clock.h"
#endif

namespace sluice {
namespace {

constexpr FaultKind kKinds[] = {FaultKind::kFail, FaultKind::kTear, FaultKind::kDelay,
                                FaultKind::kVanish, FaultKind::kKill};

}  // namespace

absl::string_view FaultKindName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kFail:
      return "fail";
    case FaultKind::kTear:
      return "tear";
    case FaultKind::kDelay:
      return "delay";
    case FaultKind::kVanish:
      return "vanish";
    case FaultKind::kKill:
      return "kill";
  }
  return "";
}

absl::StatusOr<Fault> ParseFault(absl::string_view text) {
  const std::vector<std::string> words = absl::StrSplit(text, ':');
  Fault fault;
  const bool counts = words.size() == 3 && absl::SimpleAtoi(words[1], &fault.hit) && fault.hit >= 1;
  for (const FaultKind kind : kKinds) {
    if (!counts || words[0].empty() || words[2] != FaultKindName(kind)) continue;
    fault.point = words[0] == "*" ? "" : words[0];
    fault.kind = kind;
    return fault;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text,
      "' is no fault; expected POINT:HIT:KIND, as disk.write:7:tear, with a HIT from 1 and a ",
      "KIND of fail, tear, delay, vanish and kill"));
}

#ifdef SLUICE_FAILPOINTS
namespace {

// Everything that failpoints know, of the whole process.
class Failpoints {
 public:
  static Failpoints& Get() {
    static auto* const points = new Failpoints;  // threads may outlive main
    return *points;
  }

  FaultAnswer Hit(absl::string_view group, absl::string_view name) {
    absl::Duration delay;
    const FaultAnswer answer = Decide(group, absl::StrCat(group, ".", name), &delay);
    if (delay > absl::ZeroDuration()) absl::SleepFor(delay);
    return answer;
  }

  void Arm(std::optional<Fault> fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
    hits_.clear();
    passed_ = 0;
    happened_in_.clear();
  }

  std::map<std::string, int64_t> hits() const {
    const std::lock_guard lock(mutex_);
    return hits_;
  }

  bool happened() const {
    const std::lock_guard lock(mutex_);
    return !happened_in_.empty();
  }

 private:
  Failpoints() {
    const char* const text = std::getenv("SLUICE_FAILPOINT");
    if (text == nullptr) return;
    absl::StatusOr<Fault> fault = ParseFault(text);
    if (!fault.ok()) {
      std::fprintf(stderr, "SLUICE_FAILPOINT: %s\n", fault.status().ToString().c_str());
      std::abort();
    }
    fault_ = *std::move(fault);
    if (const char* const once = std::getenv("SLUICE_FAILPOINT_ONCE")) once_ = once;
  }

  // Whether no other process has had the fault.
  bool IsFirst() const {
    if (once_.empty()) return true;
    const int file = open(once_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0) close(file);
    return file >= 0;
  }

  FaultAnswer Decide(absl::string_view group, const std::string& point, absl::Duration* delay) {
    const std::lock_guard lock(mutex_);
    const int64_t hits = ++hits_[point];
    ++passed_;
    if (!fault_) return {};
    if (!happened_in_.empty()) {
      const bool gone = fault_->kind == FaultKind::kVanish && happened_in_ == group;
      return {.error = gone ? fault_->error : 0};
    }
    const bool any = fault_->point.empty();
    if (!any && fault_->point != point) return {};
    if ((any ? passed_ : hits) != fault_->hit) return {};
    if (!IsFirst()) {
      fault_.reset();
      return {};
    }
    happened_in_ = std::string(group);
    switch (fault_->kind) {
      case FaultKind::kFail:
        return {.error = fault_->error};
      case FaultKind::kTear:
      case FaultKind::kVanish:
        return {.error = fault_->error, .torn = true};
      case FaultKind::kKill:
        return {.error = fault_->error, .torn = true, .kill = true};
      case FaultKind::kDelay:
        *delay = fault_->delay;
        return {};
    }
    return {};
  }

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Fault> fault_;
  std::string once_ = {};  // the file that says that it has happened; empty: each process has it
  std::map<std::string, int64_t> hits_;
  int64_t passed_ = 0;       // the sum of `hits_`
  std::string happened_in_;  // the group of the fault that has happened
};

}  // namespace

FaultAnswer HitFailpoint(absl::string_view group, absl::string_view name) {
  return Failpoints::Get().Hit(group, name);
}

void DieOfFault() {
  std::raise(SIGKILL);
  std::abort();
}

void ArmFault(std::optional<Fault> fault) { Failpoints::Get().Arm(std::move(fault)); }

std::map<std::string, int64_t> FailpointHits() { return Failpoints::Get().hits(); }

bool FaultHappened() { return Failpoints::Get().happened(); }
#endif

}  // namespace sluice
