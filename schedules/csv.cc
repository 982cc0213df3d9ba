#include "schedules/csv.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr absl::string_view kOverlap = "OVERLAP_F_B";
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr int kUnplaced = -1;

std::optional<Op> OpNamed(absl::string_view letters) {
  for (int op = 1; op <= static_cast<int>(kLastOp); ++op) {
    if (letters == OpName(static_cast<Op>(op))) return static_cast<Op>(op);
  }
  return std::nullopt;
}

constexpr int kMostStage = std::numeric_limits<uint16_t>::max();
// One less than the largest, so that the count of micro-batches is a number too.
constexpr int kMostMicroBatch = std::numeric_limits<int32_t>::max() - 1;

// OPTIMIZER_STEP of a synchronous table, and what is said of a whole stage.
bool MayLackMicroBatch(Op op) {
  return op == Op::kOptimizerStep || op == Op::kUnshard || op == Op::kReshard ||
         op == Op::kWaitReduceGrad;
}

// Reads cells, and remembers what was wrong with the last one that it could not read.
class CellReader {
 public:
  // Appends what one cell says; false when it is no action.
  bool Read(absl::string_view cell, std::vector<Action>& row);
  const std::string& why() const { return why_; }

 private:
  std::optional<Action> ReadAction(absl::string_view text);
  std::optional<int> TakeNumber(absl::string_view& text, int most, const char* what);
  bool ReadPair(absl::string_view cell, std::vector<Action>& row);
  std::nullopt_t Because(std::string why) {
    why_ = std::move(why);
    return std::nullopt;
  }

  std::string why_;
};

// Takes the digits at the front of `text`.
std::optional<int> CellReader::TakeNumber(absl::string_view& text, int most, const char* what) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  if (digits == 0) return Because(absl::StrCat("its ", what, " is missing"));
  int value = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &value) || value > most) {
    return Because(absl::StrCat("its ", what, " is above ", most));
  }
  text.remove_prefix(digits);
  return value;
}

// "2F0", "1SEND_B3", "0REDUCE_GRAD".
std::optional<Action> CellReader::ReadAction(absl::string_view text) {
  const std::optional<int> stage = TakeNumber(text, kMostStage, "stage");
  if (!stage.has_value()) return std::nullopt;
  size_t letters = 0;
  while (letters < text.size() && !absl::ascii_isdigit(text[letters])) ++letters;
  const std::optional<Op> op = OpNamed(text.substr(0, letters));
  if (!op.has_value()) return Because("what stands after its stage is no operation");
  text.remove_prefix(letters);
  Action action{.op = *op, .stage = static_cast<uint16_t>(*stage)};
  if (MayLackMicroBatch(*op) && text.empty()) return action;
  if (*op == Op::kReduceGrad) {
    if (text.empty()) return action;
    return Because("this operation has no micro-batch");
  }
  const std::optional<int> micro_batch = TakeNumber(text, kMostMicroBatch, "micro-batch");
  if (!micro_batch.has_value()) return std::nullopt;
  if (!text.empty()) return Because("something follows its micro-batch");
  action.micro_batch = *micro_batch;
  return action;
}

// Spreadsheets put cells into quotes, and a byte order mark before the first one.
absl::string_view WithoutQuotes(absl::string_view cell) {
  cell = absl::StripAsciiWhitespace(cell);
  const bool quoted = cell.size() > 1 && cell.front() == '"' && cell.back() == '"';
  return quoted ? absl::StripAsciiWhitespace(cell.substr(1, cell.size() - 2)) : cell;
}

bool CellReader::Read(absl::string_view cell, std::vector<Action>& row) {
  cell = WithoutQuotes(cell);
  if (cell.empty()) {
    row.push_back({});
    return true;
  }
  if (cell[0] == '(') return ReadPair(cell.substr(1), row);
  const std::optional<Action> action = ReadAction(cell);
  if (action.has_value()) row.push_back(*action);
  return action.has_value();
}

bool CellReader::ReadPair(absl::string_view cell, std::vector<Action>& row) {
  const std::vector<absl::string_view> halves =
      absl::StrSplit(absl::StripSuffix(cell, absl::StrCat(")", kOverlap)), ';');
  if (!absl::EndsWith(cell, absl::StrCat(")", kOverlap)) || halves.size() != 2) {
    Because("it is not a pair of two actions");
    return false;
  }
  std::optional<Action> first = ReadAction(halves[0]);
  if (!first.has_value()) return false;
  const std::optional<Action> second = ReadAction(halves[1]);
  if (!second.has_value()) return false;
  if (RunsNothing(first->op) || RunsNothing(second->op)) {
    Because("it is not a pair of two actions");
    return false;
  }
  first->overlaps_next = true;
  row.push_back(*first);
  row.push_back(*second);
  return true;
}

// What is printed as it is are the characters that cells can have; others, such as a space of
// another kind that looks like one, show their bytes.
std::string ShowCell(absl::string_view cell) {
  std::string shown;
  for (const char c : cell) {
    if (absl::ascii_isprint(static_cast<unsigned char>(c))) {
      shown.push_back(c);
    } else {
      absl::StrAppend(&shown, "\\x", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return shown;
}

absl::Status CellError(absl::string_view name, size_t line, size_t column, size_t cell_number,
                       absl::string_view cell, const std::string& why) {
  constexpr size_t kShown = 40;
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": line ", line, ", column ", column, " (cell ", cell_number, "): '",
      ShowCell(cell.substr(0, kShown)), cell.size() > kShown ? "..." : "", "' is not an action: ",
      why, "; expected one like 2F0, 1SEND_B3, 0REDUCE_GRAD or (0F7;7B3)", kOverlap));
}

// The rank of each stage: the one with most of its actions (sends and receives only count where
// nothing is computed), so that a misplaced action does not move the stage.
std::vector<int> RanksOfStages(const std::vector<std::vector<Action>>& rows) {
  constexpr int64_t kCompute = int64_t{1} << 32;
  constexpr int64_t kForward = kCompute + 1;  // breaks ties
  std::vector<int> ranks;
  std::vector<int64_t> most;
  std::vector<int64_t> here;
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    std::vector<uint16_t> touched;
    for (const Action& action : rows[rank]) {
      if (RunsNothing(action.op)) continue;
      if (action.stage >= ranks.size()) {
        ranks.resize(action.stage + size_t{1}, kUnplaced);
        most.resize(ranks.size(), 0);
        here.resize(ranks.size(), 0);
      }
      if (here[action.stage] == 0) touched.push_back(action.stage);
      here[action.stage] += action.op == Op::kForward ? kForward
                            : IsCompute(action.op)    ? kCompute
                                                      : 1;
    }
    for (const uint16_t stage : touched) {
      if (here[stage] > most[stage]) {
        most[stage] = here[stage];
        ranks[stage] = static_cast<int>(rank);
      }
      here[stage] = 0;
    }
  }
  return ranks;
}

// Where stages are that no action names: as the usual placements have it, else beside a neighbour.
// The table is unsound in any case; this lets the validator say what it lacks.
void PlaceUnnamed(int ranks, std::vector<int>& rank_of_stage) {
  const auto fits = [&](const Placement& placement) {
    for (size_t s = 0; s < rank_of_stage.size(); ++s) {
      const int rank = rank_of_stage[s];
      if (rank != kUnplaced && rank != placement.rank(static_cast<int>(s))) return false;
    }
    return true;
  };
  const int chunks = static_cast<int>(rank_of_stage.size() + ranks - 1) / ranks;
  for (const Placement& usual : {Placement::Looped(ranks, chunks), Placement::V(ranks, chunks)}) {
    if (!fits(usual)) continue;
    std::copy_n(usual.rank_of_stage().begin(), rank_of_stage.size(), rank_of_stage.begin());
    return;
  }
  int neighbour = 0;
  for (int& rank : rank_of_stage) {
    if (rank == kUnplaced) rank = neighbour;
    neighbour = rank;
  }
}

// A table whose OPTIMIZER_STEPs name micro-batches before the last is asynchronous; the least of
// them says how many an update includes.
void FindUpdates(Timetable& table) {
  int first = table.micro_batches;
  for (const auto& row : table.rows) {
    for (const Action& action : row) {
      if (action.op != Op::kOptimizerStep || action.micro_batch == Action::kNoMicroBatch) continue;
      first = std::min(first, action.micro_batch + 1);
    }
  }
  if (first >= table.micro_batches) return;
  table.updates = first == 1 ? WeightUpdates::kEachMicroBatch : WeightUpdates::kDoubleBuffered;
  if (first > 1) table.update_every = first;
}

}  // namespace

absl::StatusOr<Timetable> ParseTimetableCsv(absl::string_view text, absl::string_view name) {
  Timetable table;
  table.name = std::string(name);
  absl::ConsumePrefix(&text, kByteOrderMark);
  absl::ConsumeSuffix(&text, "\n");
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": line 1, column 1: no timetable: the file is empty"));
  }
  CellReader reader;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    auto& row = table.rows.emplace_back();
    size_t cell_number = 0;
    for (absl::string_view cell : absl::StrSplit(line, ',')) {
      ++cell_number;
      if (reader.Read(cell, row)) continue;
      const size_t column = static_cast<size_t>(cell.data() - line.data()) + 1;
      return CellError(name, table.rows.size(), column, cell_number, cell, reader.why());
    }
    for (const Action& action : row) {
      table.micro_batches = std::max(table.micro_batches, action.micro_batch + 1);
    }
  }
  std::vector<int> rank_of_stage = RanksOfStages(table.rows);
  PlaceUnnamed(static_cast<int>(table.rows.size()), rank_of_stage);
  std::vector<bool> has_stage(table.rows.size(), false);
  for (const int rank : rank_of_stage) has_stage[static_cast<size_t>(rank)] = true;
  const auto idle = std::find(has_stage.begin(), has_stage.end(), false) - has_stage.begin();
  if (idle < static_cast<int64_t>(table.rows.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": line ", idle + 1,
        ", column 1: this line has no stage of its own; every line is a rank, and every rank "
        "computes a stage"));
  }
  absl::StatusOr<Placement> placement = Placement::FromRanks(std::move(rank_of_stage));
  if (!placement.ok()) return placement.status();
  table.placement = *std::move(placement);
  FindUpdates(table);
  return table;
}

LineEnd LineEndOf(absl::string_view text) {
  return absl::StrContains(text, "\r\n") ? LineEnd::kCrLf : LineEnd::kLf;
}

std::string FormatTimetableCsv(const Timetable& timetable, LineEnd line_end) {
  std::string text;
  for (const auto& row : timetable.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      if (row[i].overlaps_next && i + 1 < row.size()) {
        absl::StrAppend(&text, "(", ToString(row[i]), ";", ToString(row[i + 1]), ")", kOverlap);
        ++i;
      } else {
        text += ToString(row[i]);
      }
    }
    text += line_end == LineEnd::kCrLf ? "\r\n" : "\n";
  }
  return text;
}

}  // namespace sluice
