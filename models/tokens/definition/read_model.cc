#include "models/tokens/definition/read_model.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

using WordIds = absl::flat_hash_map<absl::string_view, int32_t>;

void ReadWords(const JsonField& field, BpeDefinition* model) {
  if (!field.value().is_object()) return field.Fail("an object of words and their ids");
  absl::flat_hash_map<int32_t, absl::string_view> words;
  model->words.reserve(field.value().size());
  words.reserve(field.value().size());
  for (const auto& [word, value] : field.value().items()) {
    if (!value.is_number_unsigned()) return field.At(word).Fail("an id");
    const int32_t id = field.At(word).Id();
    if (!field.ok()) return;
    const auto [other, is_new] = words.emplace(id, word);
    if (!is_new) {
      return field.At(word).Fail(
          absl::StrCat("an id of its own, and not that of ", ShowJson(std::string(other->second))));
    }
    model->words.emplace_back(word, id);
  }
}

int32_t IdOf(const JsonField& merge, absl::string_view word, const WordIds& ids) {
  const auto found = ids.find(word);
  if (found != ids.end()) return found->second;
  merge.Fail(absl::StrCat("words of model.vocab; ", ShowJson(std::string(word)), " is none"));
  return 0;
}

// "a b", or ["a", "b"] where words may have spaces.
std::pair<std::string, std::string> ReadPair(const JsonField& merge) {
  constexpr absl::string_view kExpected = "two words: \"a b\" or [\"a\", \"b\"]";
  if (merge.value().is_array() && merge.Size() == 2) {
    return {merge.At(0).String(), merge.At(1).String()};
  }
  std::vector<std::string> words;
  if (merge.value().is_string()) words = absl::StrSplit(merge.String(), ' ');
  if (words.size() != 2) {
    merge.Fail(kExpected);
    return {};
  }
  return {words[0], words[1]};
}

void ReadMerges(const JsonField& field, const WordIds& ids, BpeDefinition* model) {
  const size_t count = field.Size();
  model->merges.reserve(count);
  for (size_t i = 0; i < count && field.ok(); ++i) {
    const JsonField merge = field.At(i);
    // The first line of GPT-2's merges.txt.
    if (merge.value().is_string() && absl::StartsWith(merge.String(), "#version")) continue;
    const auto [left, right] = ReadPair(merge);
    if (!field.ok()) return;
    model->merges.push_back({IdOf(merge, left, ids), IdOf(merge, right, ids),
                             IdOf(merge, absl::StrCat(left, right), ids)});
  }
}

void RefuseAffix(const JsonField& field) {
  if (!field.IsNull() && !field.String().empty()) {
    field.Fail("null or \"\": prefixes and suffixes of words are not supported");
  }
}

}  // namespace

BpeDefinition ReadBpe(const JsonField& field) {
  BpeDefinition model;
  if (!field.value().is_object()) {
    field.Fail("an object, {\"type\": \"BPE\", ...}");
    return model;
  }
  // Files of GPT-2's age do not say it.
  const JsonField type = field.At("type");
  if (!type.IsNull() && type.String() != "BPE") {
    type.Fail("\"BPE\": other models (WordPiece, Unigram, WordLevel) are not supported");
  }
  const JsonField dropout = field.At("dropout");
  if (!dropout.IsNull() && !(dropout.value().is_number() && dropout.value() == 0)) {
    dropout.Fail("null: merges that are left out at random are not supported");
  }
  RefuseAffix(field.At("continuing_subword_prefix"));
  RefuseAffix(field.At("end_of_word_suffix"));
  if (const JsonField unknown = field.At("unk_token"); !unknown.IsNull()) {
    model.unknown = unknown.String();
  }
  model.fuse_unknown = field.At("fuse_unk").BoolOr(false);
  model.byte_fallback = field.At("byte_fallback").BoolOr(false);
  model.ignore_merges = field.At("ignore_merges").BoolOr(false);
  if (!field.ok()) return model;
  ReadWords(field.At("vocab"), &model);
  if (!field.ok()) return model;
  WordIds ids;
  for (const auto& [word, id] : model.words) ids.emplace(word, id);
  ReadMerges(field.At("merges"), ids, &model);
  return model;
}

}  // namespace sluice
