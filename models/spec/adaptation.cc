#include "models/spec/adaptation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "models/spec/units.h"

namespace sluice {
namespace {

constexpr char kA[] = ".lora_A.weight";
constexpr char kB[] = ".lora_B.weight";
constexpr char kAllLinear[] = "all-linear";
constexpr int64_t kMostRank = 65536;

absl::Status Wrong(absl::string_view key, absl::string_view value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("--lora ", key, "=", value, ": expected ", expected));
}

absl::Status TakeTarget(absl::string_view target, Lora* lora) {
  if (target.empty()) return Wrong("targets", target, "all-linear or names such as q_proj,v_proj");
  if (target == "lm_head")
    return Wrong("targets", target, "maps of blocks; the head has no adapter");
  if (target != kAllLinear) lora->targets.emplace_back(target);
  return absl::OkStatus();
}

absl::Status Take(absl::string_view key, absl::string_view value, Lora* lora) {
  if (key == "r") {
    const bool good = absl::SimpleAtoi(value, &lora->rank) && lora->rank >= 1;
    return good && lora->rank <= kMostRank ? absl::OkStatus()
                                           : Wrong(key, value, "a rank from 1 to 65536");
  }
  if (key == "alpha") {
    const bool good = absl::SimpleAtod(value, &lora->alpha) && std::isfinite(lora->alpha);
    return good && lora->alpha > 0 ? absl::OkStatus() : Wrong(key, value, "a number above 0");
  }
  if (key == "rslora") {
    if (value != "0" && value != "1") return Wrong(key, value, "0 or 1");
    lora->rank_stabilised = value == "1";
    return absl::OkStatus();
  }
  if (key == "dropout") {
    const bool good = absl::SimpleAtod(value, &lora->dropout) && lora->dropout >= 0;
    return good && lora->dropout < 1 ? absl::OkStatus()
                                     : Wrong(key, value, "a share from 0 to less than 1");
  }
  if (key == "targets") return TakeTarget(value, lora);
  return absl::InvalidArgumentError(
      absl::StrCat("--lora ", key, "=", value, ": expected r, alpha, dropout, targets or rslora"));
}

}  // namespace

double Lora::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilised ? std::sqrt(r) : r);
}

bool Lora::Targets(absl::string_view module) const {
  if (targets.empty()) return true;
  return std::any_of(targets.begin(), targets.end(), [module](const std::string& target) {
    return module == target || absl::EndsWith(module, absl::StrCat(".", target));
  });
}

absl::StatusOr<Lora> ParseLora(absl::string_view text) {
  Lora lora;
  std::string key;
  std::set<std::string> keys;
  int targets = 0;
  bool all_linear = false;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const bool more_targets = key == "targets" && !absl::StrContains(part, '=');
    if (!more_targets) key = std::string(pair.first);
    const absl::string_view value = more_targets ? part : pair.second;
    if (!more_targets && !absl::StrContains(part, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora ", text, ": '", part, "' has no value; expected a list such as ",
                       "r=16,alpha=32; the keys are r, alpha, dropout, targets and rslora"));
    }
    absl::Status status = Take(key, value, &lora);
    if (!status.ok()) return status;
    if (!more_targets && !keys.insert(key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--lora ", text, ": ", key, " is given twice; expected it once"));
    }
    targets += key == "targets" ? 1 : 0;
    all_linear |= key == "targets" && value == kAllLinear;
  }
  if (all_linear && targets > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lora ", text,
                     ": expected targets=all-linear, which is every map, or names "
                     "of maps, not both"));
  }
  return lora;
}

std::string Adaptation::ToString() const {
  std::vector<std::string> parts;
  if (lora.has_value()) {
    const std::string targets =
        lora->targets.empty() ? kAllLinear : absl::StrJoin(lora->targets, ",");
    const std::string dropout =
        lora->dropout == 0 ? "" : absl::StrCat("dropout=", ShortestNumber(lora->dropout), ",");
    parts.push_back(absl::StrCat("lora r=", lora->rank, ",alpha=", ShortestNumber(lora->alpha), ",",
                                 dropout, "rslora=", lora->rank_stabilised ? 1 : 0,
                                 ",targets=", targets));
  }
  if (!freeze.empty()) parts.push_back(absl::StrCat("freeze ", absl::StrJoin(freeze, ",")));
  // Older runs, which had nothing but fp32, do not say so.
  const bool halves = base_dtype == DType::kBFloat16;
  if (!parts.empty() && halves) parts.push_back(absl::StrCat("base ", DTypeName(base_dtype)));
  return absl::StrJoin(parts, "; ");
}

absl::StatusOr<Adaptation> ParseAdaptation(absl::string_view text) {
  Adaptation adaptation;
  for (absl::string_view part : absl::StrSplit(text, "; ", absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&part, "lora ")) {
      absl::StatusOr<Lora> lora = ParseLora(part);
      if (!lora.ok()) return lora.status();
      adaptation.lora = *std::move(lora);
    } else if (absl::ConsumePrefix(&part, "freeze ")) {
      adaptation.freeze = absl::StrSplit(part, ',');
    } else if (!absl::ConsumePrefix(&part, "base ") ||
               !ParseDType(std::string(part), &adaptation.base_dtype)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part,
          "': expected parts such as 'lora r=16,alpha=32', 'freeze *.bias', 'base bf16'"));
    }
  }
  return adaptation;
}

bool Adaptation::Freezes(absl::string_view name) const {
  if (IsAdapter(name)) return false;
  if (lora.has_value()) return true;
  return std::any_of(freeze.begin(), freeze.end(),
                     [name](const std::string& pattern) { return MatchesPattern(pattern, name); });
}

std::string AdapterA(absl::string_view module) { return absl::StrCat(kAdapterPrefix, module, kA); }
std::string AdapterB(absl::string_view module) { return absl::StrCat(kAdapterPrefix, module, kB); }
bool IsAdapter(absl::string_view name) {
  return absl::StartsWith(name, kAdapterPrefix) &&
         (absl::EndsWith(name, kA) || absl::EndsWith(name, kB));
}

bool MatchesPattern(absl::string_view pattern, absl::string_view text) {
  // On a mismatch the last star takes one character more.
  size_t p = 0, t = 0, star = absl::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace sluice
