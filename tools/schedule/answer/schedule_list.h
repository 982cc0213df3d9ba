#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "schedules/generators/catalogue.h"

// What `sluice schedule list` prints.
namespace sluice {

// The catalogue and `auto` for people, in lines of at most `columns` characters: a table where it
// fits, else a paragraph each.
std::string CatalogueText(int columns);
// Their names and summaries alone.
std::string BriefCatalogueText(int columns);
// All of it as a JSON array.
nlohmann::ordered_json CatalogueJson();

// One schedule: its name and summary, and below them its facts, a line each.
void AppendEntry(const CatalogueEntry& entry, int columns, std::string& out);
// One more of these lines.
void AppendFact(absl::string_view label, absl::string_view text, int columns, std::string& out);
// What the letters of formulas are.
std::string FormulaLegend(int columns);
// The same as a JSON object.
nlohmann::ordered_json EntryJson(const CatalogueEntry& entry);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_
