#include "models/tokens/tokenizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "models/tokens/definition/read_definition.h"

namespace sluice {
namespace {

absl::Status Named(absl::string_view name, absl::string_view field, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": field '", field, "': ", status.message()));
}

// Whether an added token can reach over the end of a line: in its text, or by the white space that
// it takes before it, perhaps only where the text ends behind it.
bool JoinsLines(const AddedToken& token) {
  for (size_t at = 0; (at = token.content.find('\n', at)) != std::string::npos;) {
    if (++at == token.content.size()) break;
    if (!absl::ascii_isspace(static_cast<unsigned char>(token.content[at]))) return true;
  }
  return token.left_strip;
}

// Whether several words may stand at the start of the whole text: what a normalizer puts in, or
// makes of the first character, and a step before a Metaspace cuts. `tokenizers` prepends to each.
bool HasSeveralFirstWords(const TokenizerDefinition& definition) {
  if (definition.normalizers.empty()) return false;
  const std::vector<PreTokenizerStep>& steps = definition.pre_tokenizers;
  for (size_t i = 1; i < steps.size(); ++i) {
    const auto* const metaspace = std::get_if<MetaspaceStep>(&steps[i]);
    if (metaspace != nullptr && metaspace->prepend == MetaspaceStep::Prepend::kFirst) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Load(absl::string_view json,
                                                                 absl::string_view name) {
  absl::StatusOr<TokenizerDefinition> definition = ReadTokenizerDefinition(json, name);
  if (!definition.ok()) return definition.status();
  absl::StatusOr<Normalizer> normalizer = Normalizer::Create(definition->normalizers);
  if (!normalizer.ok()) return Named(name, "normalizer", normalizer.status());
  if (HasSeveralFirstWords(*definition)) {
    return Named(
        name, "pre_tokenizer",
        absl::InvalidArgumentError(
            "a Metaspace with prepend_scheme \"first\" behind another step is not supported "
            "with a normalizer; expected it first, or \"always\" or \"never\""));
  }
  absl::StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(definition->pre_tokenizers);
  if (!pre_tokenizer.ok()) return Named(name, "pre_tokenizer", pre_tokenizer.status());
  std::unique_ptr<Tokenizer> tokenizer(
      new Tokenizer(*std::move(definition), *std::move(normalizer), *std::move(pre_tokenizer)));
  if (absl::Status status = tokenizer->AddTokens(); !status.ok()) {
    return Named(name, "added_tokens", status);
  }
  for (const std::vector<int32_t>* ids :
       {&tokenizer->definition_.before, &tokenizer->definition_.after}) {
    for (const int32_t id : *ids) {
      if (tokenizer->WordOf(id).has_value()) continue;
      return Named(name, "post_processor",
                   absl::InvalidArgumentError(absl::StrCat(
                       "the id ", id, " of a special token has no word; expected one that has")));
    }
  }
  tokenizer->lines_begin_words_ = tokenizer->LinesBeginWords();
  return tokenizer;
}

Tokenizer::Tokenizer(TokenizerDefinition definition, Normalizer normalizer,
                     PreTokenizer pre_tokenizer)
    : definition_(std::move(definition)),
      normalizer_(std::move(normalizer)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      model_(definition_.model, pre_tokenizer_.byte_level()) {
  words_.reserve(definition_.model.words.size() + definition_.added.size());
  for (const auto& [word, id] : definition_.model.words) words_.emplace(id, word);
  definition_.model = {};
}

absl::Status Tokenizer::AddTokens() {
  for (const auto& [id, word] : words_) vocabulary_size_ = std::max(vocabulary_size_, id + 1);
  absl::flat_hash_set<int32_t> added;
  for (const AddedToken& token : definition_.added) {
    NormalizedText text;
    text.text = token.content;
    if (token.normalized) {
      if (absl::Status status = normalizer_.Run(token.content, &text); !status.ok()) return status;
    }
    AddedTokenFinder& finder = token.normalized ? normalized_ : raw_;
    if (absl::Status status = finder.Add(text.text, token); !status.ok()) return status;
    words_.insert_or_assign(token.id, std::string(text.text));
    if (token.special) special_.insert(token.id);
    added.insert(token.id);
    ids_.emplace(token.content, token.id);
    vocabulary_size_ = std::max(vocabulary_size_, token.id + 1);
  }
  // An added token's word may be as the normalizer writes it, and that another word of the model.
  for (const auto& [id, word] : words_) {
    if (!added.contains(id)) ids_.emplace(word, id);
  }
  return absl::OkStatus();
}

bool Tokenizer::LinesBeginWords() const {
  const auto is_nfc = [](const NormalizerStep& step) {
    const auto* form = std::get_if<UnicodeNormalizer>(&step);
    return form != nullptr && form->form == NormalizationForm::kNfc;
  };
  const std::vector<NormalizerStep>& steps = definition_.normalizers;
  return pre_tokenizer_.lines_begin_words() && std::all_of(steps.begin(), steps.end(), is_nfc) &&
         std::none_of(definition_.added.begin(), definition_.added.end(), JoinsLines);
}

std::optional<absl::string_view> Tokenizer::WordOf(int32_t id) const {
  const auto found = words_.find(id);
  if (found == words_.end()) return std::nullopt;
  return found->second;
}

std::optional<int32_t> Tokenizer::IdOf(absl::string_view word) const {
  const auto found = ids_.find(word);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::IsSpecial(int32_t id) const { return special_.contains(id); }

}  // namespace sluice
