#include "tools/train/log/log_format.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

absl::Status NotALog(const std::string& path, size_t line, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": line ", line, " ", why,
                   ", so it is no log of a run; move it away, or name another"));
}

// Lines that have an end.
std::vector<absl::string_view> WholeLines(const std::string& text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  lines.pop_back();
  return lines;
}

// Whether a file of less than a line may be a log whose writer was killed.
bool MayBegin(absl::string_view text, absl::string_view first) {
  return absl::StartsWith(text, first) || absl::StartsWith(first, text);
}

class JsonLines : public LogFormat {
 public:
  absl::StatusOr<std::vector<LogRecord>> Parse(const std::string& text,
                                               const std::string& path) override {
    std::vector<LogRecord> records;
    if (!MayBegin(text, "{\"step\":") && !MayBegin(text, "{\"evaluated_step\":"))
      return NotALog(path, 1, "does not begin with a 'step'");
    for (const absl::string_view line : WholeLines(text)) {
      absl::StatusOr<LogRecord> record = ParseOrderedJsonObject(line, path, "");
      const bool known = record.ok() && (record->value("step", LogRecord()).is_number() ||
                                         record->value("evaluated_step", LogRecord()).is_number());
      if (!known) return NotALog(path, records.size() + 1, "is no JSON object with a 'step'");
      records.push_back(*std::move(record));
    }
    return records;
  }

  std::string Format(const std::vector<LogRecord>& records) override {
    std::string text;
    for (const LogRecord& record : records) text += *Line(record);
    return text;
  }

  std::optional<std::string> Line(const LogRecord& record) override {
    return JsonText(record) + "\n";
  }
};

// "name" and its text for each number of a record: of a list one each.
std::vector<std::pair<std::string, std::string>> Cells(const LogRecord& record) {
  std::vector<std::pair<std::string, std::string>> cells;
  for (const auto& [key, value] : record.items()) {
    // A row that is about an evaluation alone says so by what else it has.
    const std::string name = key == "evaluated_step" ? "step" : key;
    if (!value.is_structured()) {
      cells.emplace_back(name, value.is_string() ? value.get<std::string>() : JsonText(value));
      continue;
    }
    for (const auto& [part, item] : value.items())
      cells.emplace_back(absl::StrCat(name, "_", part), JsonText(item));
  }
  return cells;
}

class Csv : public LogFormat {
 public:
  absl::StatusOr<std::vector<LogRecord>> Parse(const std::string& text,
                                               const std::string& path) override {
    std::vector<LogRecord> records;
    std::vector<std::string> names;
    size_t number = 0;
    if (!MayBegin(text, "step,")) return NotALog(path, 1, "does not begin with 'step,'");
    for (const absl::string_view line : WholeLines(text)) {
      const std::vector<std::string> cells = absl::StrSplit(line, ',');
      if (++number == 1) {
        names = cells;
        continue;
      }
      if (cells.size() != names.size())
        return NotALog(path, number,
                       absl::StrCat("has ", cells.size(), " cells of ", names.size()));
      records.push_back(Row(names, cells));
      int64_t step = 0;
      if (!absl::SimpleAtoi(cells.front(), &step)) return NotALog(path, number, "has no step");
    }
    return records;
  }

  std::string Format(const std::vector<LogRecord>& records) override {
    columns_.clear();
    for (const LogRecord& record : records) {
      for (const auto& [name, text] : Cells(record)) AddColumn(name);
    }
    if (records.empty()) return "";
    for (const char* name : {"eval_loss", "accuracy", "eval_samples"}) AddColumn(name);
    std::string text = absl::StrJoin(columns_, ",") + "\n";
    for (const LogRecord& record : records) text += *Line(record);
    return text;
  }

  std::optional<std::string> Line(const LogRecord& record) override {
    std::vector<std::string> row(columns_.size());
    for (auto& [name, text] : Cells(record)) {
      const auto column = std::find(columns_.begin(), columns_.end(), name);
      if (column == columns_.end()) return std::nullopt;
      row[static_cast<size_t>(column - columns_.begin())] = std::move(text);
    }
    return absl::StrJoin(row, ",") + "\n";
  }

 private:
  // Texts, so that they are written as they were read.
  static LogRecord Row(const std::vector<std::string>& names,
                       const std::vector<std::string>& cells) {
    LogRecord record;
    for (size_t column = 0; column < names.size(); ++column) {
      if (!cells[column].empty()) record[names[column]] = cells[column];
    }
    return record;
  }

  void AddColumn(const std::string& name) {
    if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
      columns_.push_back(name);
  }

  std::vector<std::string> columns_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LogFormat>> LogFormatOf(const std::string& path) {
  if (absl::EndsWith(path, ".jsonl")) return std::make_unique<JsonLines>();
  if (absl::EndsWith(path, ".csv")) return std::make_unique<Csv>();
  return absl::InvalidArgumentError(
      absl::StrCat("--log ", path, ": expected a name that ends in .jsonl or .csv"));
}

}  // namespace sluice
