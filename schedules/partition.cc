#include "schedules/partition.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

std::string FormatRange(const LayerRange& range) {
  return range.first == range.last ? absl::StrCat(range.first)
                                   : absl::StrCat(range.first, "-", range.last);
}

absl::Status BadPart(absl::string_view text, absl::string_view part, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--partition '", text, "': '", part, "' ", what));
}

// SimpleAtoi accepts a sign and surrounding blanks; a layer number is digits only.
bool ParseLayer(absl::string_view text, int* layer) {
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return absl::SimpleAtoi(text, layer);
}

absl::StatusOr<LayerRange> ParseRange(absl::string_view text, absl::string_view part) {
  const std::vector<absl::string_view> ends = absl::StrSplit(part, absl::MaxSplits('-', 1));
  LayerRange range;
  if (!ParseLayer(ends.front(), &range.first) || !ParseLayer(ends.back(), &range.last)) {
    return BadPart(text, part, "is not a layer number or a range FIRST-LAST, as in 0-3,4-7");
  }
  if (range.first > range.last) {
    return BadPart(text, part, "runs backwards; the first layer comes first");
  }
  return range;
}

// How `range` fails to continue a partition whose next layer is `next`, or OK.
absl::Status CheckContinues(absl::string_view text, const LayerRange& range, int next,
                            int layer_count) {
  const std::string part = FormatRange(range);
  if (range.first > next) {
    const std::string missing = FormatRange({next, range.first - 1});
    return BadPart(text, part, absl::StrCat("leaves a gap: no stage has layer ", missing));
  }
  if (range.first < next) {
    return BadPart(
        text, part,
        absl::StrCat("overlaps the stage before it: layer ", next, " is the first that is free"));
  }
  if (range.last >= layer_count) {
    return BadPart(text, part,
                   absl::StrCat("goes past the end: the model has ", Counted(layer_count, "layer"),
                                ", 0-", layer_count - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Partition> ParsePartition(absl::string_view text, int layer_count) {
  Partition partition;
  int next = 0;
  for (absl::string_view raw : absl::StrSplit(text, ',')) {
    const absl::string_view part = absl::StripAsciiWhitespace(raw);
    absl::StatusOr<LayerRange> range = ParseRange(text, part);
    if (!range.ok()) return range.status();
    if (absl::Status status = CheckContinues(text, *range, next, layer_count); !status.ok()) {
      return status;
    }
    partition.push_back(*range);
    next = range->last + 1;
  }
  if (next < layer_count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--partition '", text, "' stops after layer ", next - 1, ": no stage has layer ",
        FormatRange({next, layer_count - 1}), " of the model's ", layer_count));
  }
  return partition;
}

std::string FormatPartition(const Partition& partition) {
  return absl::StrJoin(partition, ",", [](std::string* out, const LayerRange& range) {
    absl::StrAppend(out, FormatRange(range));
  });
}

absl::StatusOr<Partition> EvenPartition(int layer_count, int stages) {
  if (layer_count < 1 || stages < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a partition needs at least 1 layer and 1 stage; got ",
                     Counted(layer_count, "layer"), ", ", Counted(stages, "stage")));
  }
  if (stages > layer_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", Counted(stages, "stage"), " for ", Counted(layer_count, "layer"),
                     "; every stage needs at least one: use fewer stages or more layers"));
  }
  Partition partition;
  int next = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int size = layer_count / stages + (stage < layer_count % stages ? 1 : 0);
    partition.push_back({next, next + size - 1});
    next += size;
  }
  return partition;
}

Partition MoveLayer(Partition partition, int from, int to) {
  for (int stage = from; stage < to; ++stage) {
    --partition[stage].last;
    --partition[stage + 1].first;
  }
  for (int stage = from; stage > to; --stage) {
    ++partition[stage].first;
    ++partition[stage - 1].last;
  }
  return partition;
}

}  // namespace sluice
