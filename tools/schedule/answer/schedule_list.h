#ifndef SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_
#define SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_

#include <nlohmann/json.hpp>
#include <string>

// What `sluice schedule list` prints.
namespace sluice {

// The catalogue and `auto` for people, in lines of at most `columns` characters: a table where it
// fits, else a paragraph each.
std::string CatalogueText(int columns);
// The same as a JSON array.
nlohmann::ordered_json CatalogueJson();

}  // namespace sluice

#endif  // SLUICE_TOOLS_SCHEDULE_ANSWER_SCHEDULE_LIST_H_
