#include "partitioner/calibration/calibration_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr int64_t kVocab = 51200;  // GPT-2's, padded as Megatron-LM pads it
// What a row may ask for: larger numbers than any run has, small enough that bytes fit an int64.
constexpr int64_t kMostLayers = 4096, kMostHidden = 1 << 18, kMostHeads = 1 << 12;
constexpr int64_t kMostSeq = 1 << 17, kMostVocab = 1 << 22, kMostBatch = 1 << 20;
constexpr int64_t kMostMicroBatch = 1 << 12, kMostRanks = 1 << 15;
// No step is shorter, and predictions are divided by it.
constexpr double kLeastSeconds = 1e-6, kMostSeconds = 1e9;

constexpr const char* kNeeded[] = {"params_b",     "layers",      "hidden", "heads", "seq_len",
                                   "global_batch", "micro_batch", "tp",     "dp",    "pp"};
constexpr const char* kOptional[] = {
    "vocab", "chunks", "gpus", "recompute", "sequence_parallel", "flash_attention"};
// A column of measurements, and what it says of how the step was run.
struct Measurement {
  const char* column;
  double unit;  // seconds
  bool says_how;
  Recompute recompute = Recompute::kFull;
  bool sequence = false;
};
constexpr Measurement kMeasured[] = {
    {"iteration_ms", 1e-3, false},
    {"iteration_s", 1, false},
    {"full_recompute_s", 1, true, Recompute::kFull, false},
    {"sequence_parallel_selective_s", 1, true, Recompute::kSelective, true},
};

std::vector<std::string> SplitCells(absl::string_view line) {
  std::vector<std::string> cells;
  for (const absl::string_view cell : absl::StrSplit(line, ',')) {
    cells.emplace_back(absl::StripAsciiWhitespace(cell));
  }
  return cells;
}

// Shown in errors: printable, and not endless.
std::string Shown(absl::string_view text) {
  constexpr size_t kMost = 40;
  return absl::CHexEscape(text.substr(0, kMost));
}

// The cells of one line by column; remembers the first that is wrong.
class Row {
 public:
  Row(const std::vector<std::string>& header, const std::vector<std::string>& cells,
      absl::string_view file, int line)
      : header_(header), cells_(cells), place_(absl::StrCat(file, ": line ", line)) {}

  const std::string* Find(absl::string_view column) const {
    const auto found = std::find(header_.begin(), header_.end(), column);
    return found == header_.end() ? nullptr : &cells_[found - header_.begin()];
  }
  int64_t Count(absl::string_view column, int64_t least, int64_t most) {
    int64_t value = 0;
    const std::string& cell = *Find(column);
    if (absl::SimpleAtoi(cell, &value) && value >= least && value <= most) return value;
    Fail(column, absl::StrCat("expected a whole number from ", least, " to ", most));
    return least;
  }
  int64_t CountOr(absl::string_view column, int64_t least, int64_t most, int64_t otherwise) {
    return Find(column) == nullptr ? otherwise : Count(column, least, most);
  }
  double Seconds(absl::string_view column, double unit) {
    double value = 0;
    if (absl::SimpleAtod(*Find(column), &value) && value * unit >= kLeastSeconds &&
        value * unit <= kMostSeconds) {
      return value * unit;
    }
    Fail(column,
         absl::StrCat("expected a time from ", kLeastSeconds / unit, " to ", kMostSeconds / unit));
    return 1;
  }
  void Fail(absl::string_view column, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(place_, ", column ", column, ": '", Shown(*Find(column)), "'; ", expected));
  }
  const absl::Status& status() const { return status_; }

 private:
  const std::vector<std::string>& header_;
  const std::vector<std::string>& cells_;
  std::string place_;
  absl::Status status_;
};

bool Contains(const std::vector<std::string>& header, absl::string_view column) {
  return std::find(header.begin(), header.end(), column) != header.end();
}

std::vector<absl::string_view> KnownColumns() {
  std::vector<absl::string_view> known(std::begin(kNeeded), std::end(kNeeded));
  known.insert(known.end(), std::begin(kOptional), std::end(kOptional));
  for (const Measurement& measured : kMeasured) known.emplace_back(measured.column);
  return known;
}

absl::Status CheckHeader(const std::vector<std::string>& header, absl::string_view file) {
  const std::vector<absl::string_view> known = KnownColumns();
  const auto fail = [&](absl::string_view column, absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": line 1, column ", Shown(column), ": ", what));
  };
  for (size_t i = 0; i < header.size(); ++i) {
    if (std::find(known.begin(), known.end(), header[i]) == known.end()) {
      return fail(header[i], absl::StrCat("not known; there are: ", absl::StrJoin(known, ", ")));
    }
    if (std::find(header.begin(), header.begin() + static_cast<int64_t>(i), header[i]) !=
        header.begin() + static_cast<int64_t>(i)) {
      return fail(header[i], "there twice");
    }
  }
  for (const char* column : kNeeded) {
    if (!Contains(header, column)) return fail(column, "missing");
  }
  for (const Measurement& measured : kMeasured) {
    if (Contains(header, measured.column)) return absl::OkStatus();
  }
  return fail("iteration_s", "missing: nothing was measured");
}

void ReadRecompute(Row* row, MeasuredStep* step) {
  const std::string* cell = row->Find("recompute");
  if (cell == nullptr || *cell == "full") return;
  if (*cell == "none") {
    step->recompute = Recompute::kNone;
  } else if (*cell == "selective") {
    step->recompute = Recompute::kSelective;
  } else {
    row->Fail("recompute", "expected none, selective or full");
  }
}

// What columns say together.
void CheckStep(Row* row, const MeasuredStep& step) {
  const int64_t ranks = int64_t{step.parallel.ranks()} * step.pipeline;
  if (row->CountOr("gpus", 1, kMostRanks, ranks) != ranks) {
    row->Fail("gpus", absl::StrCat("expected tp dp pp = ", ranks));
  }
  const int64_t together = step.micro_batch * step.parallel.data;
  if (step.global_batch % together != 0) {
    row->Fail("global_batch", absl::StrCat("expected a multiple of micro_batch dp = ", together));
  }
  if (step.hidden % step.heads != 0) row->Fail("heads", "expected a divisor of hidden");
  const int64_t stages = int64_t{step.pipeline} * step.chunks;
  if (step.layers < stages) {
    row->Fail("layers", absl::StrCat("expected a layer or more for each of ", stages, " stages"));
  }
}

MeasuredStep ReadShape(Row* row) {
  MeasuredStep step;
  step.model = Shown(*row->Find("params_b"));
  step.layers = row->Count("layers", 1, kMostLayers);
  step.hidden = row->Count("hidden", 1, kMostHidden);
  step.heads = row->Count("heads", 1, kMostHeads);
  step.seq = row->Count("seq_len", 1, kMostSeq);
  step.vocab = row->CountOr("vocab", 2, kMostVocab, kVocab);
  step.global_batch = row->Count("global_batch", 1, kMostBatch);
  step.micro_batch = row->Count("micro_batch", 1, kMostMicroBatch);
  step.parallel.tensor = static_cast<int>(row->Count("tp", 1, kMostRanks));
  step.parallel.data = static_cast<int>(row->Count("dp", 1, kMostRanks / step.parallel.tensor));
  step.pipeline = static_cast<int>(row->Count("pp", 1, kMostRanks / step.parallel.ranks()));
  step.chunks = static_cast<int>(row->CountOr("chunks", 1, kMostLayers, 1));
  step.parallel.sequence = row->CountOr("sequence_parallel", 0, 1, 0) == 1;
  step.flash_attention = row->CountOr("flash_attention", 0, 1, 0) == 1;
  ReadRecompute(row, &step);
  if (row->status().ok()) CheckStep(row, step);
  return step;
}

absl::Status ReadRow(const std::vector<std::string>& header, absl::string_view line, int number,
                     absl::string_view file, std::vector<MeasuredStep>* steps) {
  const std::vector<std::string> cells = SplitCells(line);
  if (cells.size() != header.size()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": line ", number, ": ", cells.size(),
                                                   " cells; expected ", header.size()));
  }
  Row row(header, cells, file, number);
  MeasuredStep step = ReadShape(&row);
  step.file = std::string(file);
  step.line = number;
  for (const Measurement& measured : kMeasured) {
    if (!Contains(header, measured.column)) continue;
    MeasuredStep one = step;
    if (measured.says_how) {
      one.recompute = measured.recompute;
      one.parallel.sequence = measured.sequence;
    }
    one.seconds = row.Seconds(measured.column, measured.unit);
    steps->push_back(std::move(one));
  }
  return row.status();
}

}  // namespace

absl::StatusOr<std::vector<MeasuredStep>> ParseMeasuredSteps(absl::string_view csv,
                                                             absl::string_view file) {
  if (absl::StripAsciiWhitespace(csv).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": is empty; expected a line with the names of columns, such as ",
                     absl::StrJoin(kNeeded, ", "), ", iteration_s, and a line per measured step"));
  }
  std::vector<std::string> header;
  std::vector<MeasuredStep> steps;
  int number = 0;
  for (const absl::string_view raw : absl::StrSplit(csv, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (number > 1 && line.empty()) continue;
    absl::Status status;
    if (number == 1) {
      header = SplitCells(line);
      status = CheckHeader(header, file);
    } else {
      status = ReadRow(header, line, number, file, &steps);
    }
    if (!status.ok()) return status;
  }
  if (steps.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": line 2: there are no measurements"));
  }
  return steps;
}

}  // namespace sluice
