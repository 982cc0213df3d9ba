#include "models/tokens/definition/read_definition.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/tokens/definition/json_field.h"
#include "models/tokens/definition/read_model.h"
#include "models/tokens/definition/read_steps.h"

namespace sluice {
namespace {

// The largest tokenizer.json of the supported families, Gemma 3's, has 33 MB.
constexpr JsonLimits kLimits = {.bytes = size_t{256} << 20, .depth = 32};

AddedToken ReadAddedToken(const JsonField& field) {
  AddedToken token;
  token.id = field.At("id").Id();
  token.content = field.At("content").String();
  if (field.ok() && token.content.empty()) field.At("content").Fail("a text that is not empty");
  token.single_word = field.At("single_word").Bool();
  token.left_strip = field.At("lstrip").Bool();
  token.right_strip = field.At("rstrip").Bool();
  token.normalized = field.At("normalized").Bool();
  token.special = field.At("special").Bool();
  return token;
}

// The ids that `tokenizers` of Hugging Face gives to added tokens, whatever the file says: the
// vocabulary's where that has the word, and else the next one after all others.
void CheckIds(const JsonField& field, const TokenizerDefinition& definition) {
  absl::flat_hash_map<absl::string_view, int32_t> words;
  for (const auto& [word, id] : definition.model.words) words.emplace(word, id);
  const auto size = static_cast<int32_t>(words.size());
  absl::flat_hash_map<absl::string_view, size_t> seen;
  int32_t last = -1;  // the largest id so far
  for (size_t i = 0; i < definition.added.size() && field.ok(); ++i) {
    const AddedToken& token = definition.added[i];
    const auto [before, is_new] = seen.emplace(token.content, i);
    if (!is_new) {
      return field.At(i).At("content").Fail(
          absl::StrCat("another text than that of added_tokens[", before->second, "]"));
    }
    const auto word = words.find(token.content);
    const int32_t expected = word != words.end() ? word->second : last >= size ? last + 1 : size;
    if (token.id != expected) {
      return field.At(i).At("id").Fail(
          absl::StrCat(expected, word != words.end()
                                     ? ", the id that model.vocab has for this content"
                                     : ": an added token that model.vocab does not have gets the "
                                       "next id after the words and the added tokens before it"));
    }
    last = std::max(last, token.id);
  }
}

// The post-processor's share: special tokens around those of the text.
void ReadTemplate(const JsonField& field, TokenizerDefinition* definition) {
  const JsonField pieces = field.At("single");
  std::vector<int32_t> before, after;
  bool text_seen = false;
  for (size_t i = 0, count = pieces.Size(); i < count && field.ok(); ++i) {
    const JsonField piece = pieces.At(i);
    if (const JsonField sequence = piece.At("Sequence"); !sequence.IsNull()) {
      if (sequence.At("id").String() != "A" || text_seen) piece.Fail("one sequence, A");
      text_seen = true;
      continue;
    }
    const std::string name = piece.At("SpecialToken").At("id").String();
    const JsonField ids = field.At("special_tokens").At(name).At("ids");
    for (size_t k = 0, all = ids.Size(); k < all; ++k) {
      (text_seen ? after : before).push_back(ids.At(k).Id());
    }
  }
  if (field.ok() && !text_seen) pieces.Fail("the sequence A once");
  // A later processor's tokens stand around an earlier one's.
  definition->before.insert(definition->before.begin(), before.begin(), before.end());
  definition->after.insert(definition->after.end(), after.begin(), after.end());
}

void ReadPostProcessor(const JsonField& field, TokenizerDefinition* definition) {
  if (field.IsNull() || !field.ok()) return;
  const std::string type = field.At("type").String();
  if (type == "TemplateProcessing") return ReadTemplate(field, definition);
  if (type == "ByteLevel") return;  // trims offsets, which nobody asks for here
  if (type != "Sequence") {
    return field.At("type").Fail("TemplateProcessing, ByteLevel or Sequence");
  }
  const JsonField all = field.At("processors");
  for (size_t i = 0, count = all.Size(); i < count; ++i) ReadPostProcessor(all.At(i), definition);
}

}  // namespace

absl::StatusOr<TokenizerDefinition> ReadTokenizerDefinition(absl::string_view text,
                                                            absl::string_view file) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(text, kLimits);
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", json.status().message(),
                                                   "; expected a Hugging Face tokenizer.json"));
  }
  absl::Status status;
  const JsonField root(*json, file, &status);
  if (!json->is_object()) root.Fail("an object, as a Hugging Face tokenizer.json is");
  TokenizerDefinition definition;
  definition.model = ReadBpe(root.At("model"));
  definition.normalizers = ReadNormalizers(root.At("normalizer"));
  definition.pre_tokenizers = ReadPreTokenizers(root.At("pre_tokenizer"));
  const JsonField added = root.At("added_tokens");
  for (size_t i = 0, count = added.IsNull() ? 0 : added.Size(); i < count && status.ok(); ++i) {
    definition.added.push_back(ReadAddedToken(added.At(i)));
  }
  if (status.ok()) CheckIds(added, definition);
  ReadPostProcessor(root.At("post_processor"), &definition);
  definition.has_decoder = !root.At("decoder").IsNull();
  definition.decoders = ReadDecoders(root.At("decoder"));
  if (!status.ok()) return status;
  return definition;
}

}  // namespace sluice
