#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "models/data/documents/jinja/builtins.h"

namespace sluice::jinja {
namespace {

// What `attribute` names of an element: a number is a place, and a text may join several by dots,
// as Jinja2's make_attrgetter reads it. `otherwise` stands for each that there is not.
absl::StatusOr<Value> AttributeOf(Value element, const Value& attribute, const Value& otherwise) {
  if (!attribute.is_string() && (!attribute.is_number_integer() || attribute < 0)) {
    return WrongType("the name of an attribute", attribute);
  }
  constexpr int64_t kMost = 1'000'000'000;  // elements, more than any list has
  Values parts = {attribute};
  if (attribute.is_string()) {
    parts.clear();
    for (const absl::string_view part :
         absl::StrSplit(attribute.get_ref<const std::string&>(), '.')) {
      int64_t place = 0;
      const bool is_place = absl::SimpleAtoi(part, &place) && place >= 0 && place < kMost;
      parts.push_back(is_place ? Value(place) : Value(std::string(part)));
    }
  }
  for (const Value& part : parts) {
    if (element.is_string() && part.is_number_integer()) {  // a character
      absl::StatusOr<Value> character =
          Slice(element, part, Value(part.get<int64_t>() + 1), Value());
      if (!character.ok()) return character;
      element = IsTrue(*character) ? *std::move(character) : otherwise;
      continue;
    }
    const absl::StatusOr<const Value*> found = Item(element, part);
    if (!found.ok()) return found.status();
    element = Value((*found)->is_discarded() ? otherwise : **found);
  }
  return element;
}

// Whether a test holds for a value; without one, whether it is true.
absl::StatusOr<bool> Holds(const Value& value, absl::Span<const Value> test) {
  if (test.empty()) return IsTrue(value);
  if (!test[0].is_string()) return WrongType("the name of a test", test[0]);
  return Test(test[0].get<std::string>(), value, Values(test.begin() + 1, test.end()));
}

// select, reject, and with an attribute first selectattr and rejectattr.
absl::StatusOr<Value> Select(const std::string& name, const Value& list, const Values& arguments) {
  const bool of_attribute = name == "selectattr" || name == "rejectattr";
  if (of_attribute && arguments.empty())
    return Unsupported(absl::StrCat("'", name, "' of nothing"));
  const bool keeps = name == "select" || name == "selectattr";
  Value kept = Value::array();
  for (const Value& element : list) {
    absl::StatusOr<Value> value =
        of_attribute ? AttributeOf(element, arguments[0], Undefined()) : element;
    if (!value.ok()) return value.status();
    const absl::StatusOr<bool> holds =
        Holds(*value, absl::MakeConstSpan(arguments).subspan(of_attribute ? 1 : 0));
    if (!holds.ok()) return holds.status();
    if (*holds == keeps) kept.push_back(element);
  }
  return kept;
}

bool GivesIterator(const std::string& filter) {
  return filter == "select" || filter == "reject" || filter == "selectattr" ||
         filter == "rejectattr" || filter == "map" || filter == "unique" || filter == "reverse" ||
         filter == "items" || filter == "dictsort";
}

// The arguments are a filter and its own, or nothing, an attribute and what stands for it where
// there is none.
absl::StatusOr<Value> Map(const Value& list, const Values& arguments) {
  const bool filters = IsGiven(arguments, 0);
  if (filters && !arguments[0].is_string()) return WrongType("the filter 'map'", arguments[0]);
  if (!filters && !IsGiven(arguments, 1)) return Unsupported("'map' without a filter or attribute");
  if (filters && GivesIterator(arguments[0].get<std::string>())) {
    return Unsupported(absl::StrCat("'map' of the filter ", TextOf(arguments[0])));
  }
  // None as the default of an attribute is none at all.
  const bool has_default = !filters && IsGiven(arguments, 2) && !arguments[2].is_null();
  Value mapped = Value::array();
  for (const Value& element : list) {
    absl::StatusOr<Value> made =
        filters ? Filter(arguments[0].get<std::string>(), element,
                         Values(arguments.begin() + 1, arguments.end()))
                : AttributeOf(element, arguments[1], has_default ? arguments[2] : Undefined());
    if (!made.ok()) return made.status();
    mapped.push_back(*std::move(made));
  }
  return mapped;
}

// What sorting compares of a value: texts without their case, unless that counts.
absl::StatusOr<Value> SortedBy(const Value& value, bool case_counts) {
  return value.is_string() && !case_counts ? Filter("lower", value, {}) : value;
}

// The elements in the order of these keys; those that are equal stay in theirs.
absl::StatusOr<Value> InOrderOf(const Values& keys, const Value& list, bool reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  absl::Status status;
  for (const Value& key : keys) {
    const absl::StatusOr<bool> compares = IsBefore(key, keys.front());
    if (!compares.ok()) return compares.status();
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return *IsBefore(keys[reverse ? right : left], keys[reverse ? left : right]);
  });
  Value sorted = Value::array();
  for (const size_t place : order) sorted.push_back(list[place]);
  return sorted;
}

// The arguments are `reverse`, `case_sensitive` and `attribute`.
absl::StatusOr<Value> Sort(const Value& list, const Values& arguments) {
  Values keys;
  for (const Value& element : list) {
    absl::StatusOr<Value> key = IsGiven(arguments, 2) && !arguments[2].is_null()
                                    ? AttributeOf(element, arguments[2], Undefined())
                                    : element;
    if (key.ok()) key = SortedBy(*key, IsGiven(arguments, 1) && IsTrue(arguments[1]));
    if (!key.ok()) return key.status();
    keys.push_back(*std::move(key));
  }
  return InOrderOf(keys, list, IsGiven(arguments, 0) && IsTrue(arguments[0]));
}

// The first of those that are equal, texts also where their case differs.
absl::StatusOr<Value> Unique(const Value& list, const Values& arguments) {
  if (!arguments.empty()) return Unsupported("the filter 'unique' with arguments");
  std::set<Value> seen;
  Value kept = Value::array();
  for (const Value& element : list) {
    if (!element.is_string() && !IsNumber(element))
      return WrongType("the filter 'unique'", element);
    const absl::StatusOr<Value> key = SortedBy(NumberOf(element), false);
    if (!key.ok()) return key.status();
    if (seen.insert(*key).second) kept.push_back(element);
  }
  return kept;
}

absl::StatusOr<Value> Sum(const Value& list) {
  Value sum = 0;
  for (const Value& element : list) {
    if (!IsNumber(element)) return WrongType("the filter 'sum'", element);
    absl::StatusOr<Value> more = Binary("+", sum, element);
    if (!more.ok()) return more;
    sum = *std::move(more);
  }
  return sum;
}

// The arguments are what stands between the elements, and an attribute of each.
absl::StatusOr<Value> Join(Value list, const Values& arguments) {
  if (IsGiven(arguments, 1) && !arguments[1].is_null()) {
    absl::StatusOr<Value> mapped = Map(list, {Undefined(), arguments[1]});
    if (!mapped.ok()) return mapped;
    list = *std::move(mapped);
  }
  if (absl::Status status = CheckHasText("the filter 'join'", list); !status.ok()) return status;
  const std::string between = IsGiven(arguments, 0) ? TextOf(arguments[0]) : "";
  return Value(absl::StrJoin(list, between, [](std::string* text, const Value& element) {
    absl::StrAppend(text, TextOf(element));
  }));
}

}  // namespace

absl::StatusOr<Value> ListFilter(const std::string& name, const Value& list,
                                 const Values& arguments) {
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    return Select(name, list, arguments);
  }
  if (name == "map") return Map(list, arguments);
  if (name == "list") return list;
  if (name == "first") return list.empty() ? Undefined() : list.front();
  if (name == "last") return list.empty() ? Undefined() : list.back();
  if (name == "reverse") return Value(Value::array_t(list.rbegin(), list.rend()));
  if (name == "join") return Join(list, arguments);
  if (name == "sort") return Sort(list, arguments);
  if (name == "unique") return Unique(list, arguments);
  if (name == "sum" && arguments.empty()) return Sum(list);
  if ((name == "min" || name == "max") && arguments.empty()) {
    // Of those that are equal the first, which in an order from the last on stands first, too.
    const absl::StatusOr<Value> sorted = Sort(list, {Value(name == "max")});
    return sorted.ok() && sorted->empty() ? Undefined() : sorted.ok() ? sorted->front() : sorted;
  }
  return Unsupported(absl::StrCat("the filter '", name, "' of a list"));
}

// The arguments are `case_sensitive`, `by` and `reverse`.
absl::StatusOr<Value> SortPairs(const Value& pairs, const Values& arguments) {
  const std::string by = IsGiven(arguments, 1) ? TextOf(arguments[1]) : "key";
  if (by != "key" && by != "value") return WrongType("the argument 'by' of 'dictsort'", by);
  const Value reverse = IsGiven(arguments, 2) ? arguments[2] : Value(false);
  const Value case_counts = IsGiven(arguments, 0) ? arguments[0] : Value(false);
  return Sort(pairs, {reverse, case_counts, Value(by == "key" ? 0 : 1)});
}

}  // namespace sluice::jinja
