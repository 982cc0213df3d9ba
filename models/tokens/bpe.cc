#include "models/tokens/bpe.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "models/spec/show_text.h"
#include "models/tokens/byte_characters.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

constexpr size_t kFilterBits = size_t{1} << 22;

using Candidate = BpeScratch::Candidate;

// Order of a heap whose top is merged first.
bool IsLater(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

uint64_t Key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A bit of the filter for two characters. Fibonacci hashing (Knuth, The Art of Computer
// Programming, vol. 3, section 6.4).
size_t FilterBit(char32_t left, char32_t right) {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  constexpr int kShift = 64 - 22;
  return (uint64_t{left} << 32 | right) * kGoldenRatio >> kShift;
}

}  // namespace

Bpe::Bpe(const BpeDefinition& definition, bool byte_level)
    : byte_level_(byte_level),
      fuse_unknown_(definition.fuse_unknown),
      byte_fallback_(definition.byte_fallback),
      ignore_merges_(definition.ignore_merges),
      unknown_(definition.unknown.value_or("")),
      has_unknown_(definition.unknown.has_value()) {
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  ids.reserve(definition.words.size());
  for (const auto& [word, id] : definition.words) ids.emplace(word, id);
  const auto id_of = [&ids](absl::string_view word) {
    const auto found = ids.find(word);
    return found == ids.end() ? -1 : found->second;
  };
  if (has_unknown_) unknown_id_ = id_of(unknown_);
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(byte)), &character);
    byte_units_[byte] = id_of(character);
    fallback_[byte] = id_of(absl::StrFormat("<0x%02X>", byte));
  }
  for (int code = 0; code < 128; ++code) {
    const char character = static_cast<char>(code);
    ascii_units_[code] = id_of(absl::string_view(&character, 1));
  }
  for (const auto& [word, id] : definition.words) {
    size_t at = 0;
    if (word.empty()) continue;
    const char32_t first = NextCodePoint(word, &at);
    if (at == word.size() && first >= 128) units_.emplace(first, id);
  }
  merges_.reserve(definition.merges.size());
  for (size_t rank = 0; rank < definition.merges.size(); ++rank) {
    const Merge& merge = definition.merges[rank];
    // Of two merges of one pair the later one counts, as in Hugging Face's tokenizers.
    merges_.insert_or_assign(Key(merge.left, merge.right),
                             MergeTo{static_cast<uint32_t>(rank), merge.result});
  }
  if (ignore_merges_) AddWords(definition);
  if (!byte_level_) AddNeighbours(definition);
}

void Bpe::AddWords(const BpeDefinition& definition) {
  words_.reserve(definition.words.size());
  for (const auto& [word, id] : definition.words) {
    std::string bytes;
    if (!byte_level_) {
      words_.emplace(word, id);
    } else if (BytesOfWord(word, &bytes)) {
      words_.emplace(bytes, id);
    }
  }
}

void Bpe::AddNeighbours(const BpeDefinition& definition) {
  neighbours_.resize(kFilterBits / 64);
  absl::flat_hash_set<int32_t> results;
  for (const Merge& merge : definition.merges) results.insert(merge.result);
  for (const auto& [word, id] : definition.words) {
    if (!results.contains(id)) continue;
    char32_t left = 0;
    for (size_t at = 0; at < word.size();) {
      const bool is_first = at == 0;
      const char32_t right = NextCodePoint(word, &at);
      const size_t bit = FilterBit(left, right);
      if (!is_first) neighbours_[bit / 64] |= uint64_t{1} << bit % 64;
      left = right;
    }
  }
}

absl::Status Bpe::Encode(absl::string_view word, BpeScratch* scratch,
                         std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const auto found = words_.find(word); found != words_.end()) {
      ids->push_back(found->second);
      return absl::OkStatus();
    }
  }
  if (byte_level_) return EncodePart(word, scratch, ids);
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = EndOfPart(word, begin);
    absl::Status status = EncodePart(word.substr(begin, end - begin), scratch, ids);
    if (!status.ok()) return status;
    begin = end;
  }
  return absl::OkStatus();
}

int32_t Bpe::CharacterUnit(char32_t character) const {
  if (character < 128) return ascii_units_[character];
  const auto found = units_.find(character);
  return found == units_.end() ? -1 : found->second;
}

// Without a space between them, whole texts are one word to a model whose pre-tokenizer does not
// split (Llama 2, Gemma). A token that crosses the boundary of two characters holds both, one after
// the other; so where no result of a merge does, the two sides can be encoded by themselves, and
// most parts are words that the cache knows. Beside a character that the vocabulary does not have
// there is no such boundary: what becomes of it depends on those around it.
size_t Bpe::EndOfPart(absl::string_view word, size_t begin) const {
  size_t at = begin;
  char32_t left = NextCodePoint(word, &at);
  bool left_is_known = CharacterUnit(left) >= 0;
  while (at < word.size()) {
    const size_t boundary = at;
    const char32_t right = NextCodePoint(word, &at);
    const bool right_is_known = CharacterUnit(right) >= 0;
    const size_t bit = FilterBit(left, right);
    if (left_is_known && right_is_known && (neighbours_[bit / 64] >> bit % 64 & 1) == 0) {
      return boundary;
    }
    left = right;
    left_is_known = right_is_known;
  }
  return word.size();
}

absl::Status Bpe::EncodePart(absl::string_view part, BpeScratch* scratch,
                             std::vector<int32_t>* ids) const {
  const absl::Span<const int32_t> known = scratch->cache.Find(part);
  if (!known.empty()) {
    ids->insert(ids->end(), known.begin(), known.end());
    return absl::OkStatus();
  }
  if (absl::Status status = Start(part, scratch); !status.ok()) return status;
  MergeAll(scratch);
  const size_t before = ids->size();
  for (const BpeScratch::Symbol& symbol : scratch->symbols) {
    if (symbol.id >= 0) ids->push_back(symbol.id);
  }
  scratch->cache.Insert(part, absl::MakeConstSpan(*ids).subspan(before));
  return absl::OkStatus();
}

absl::Status Bpe::Start(absl::string_view part, BpeScratch* scratch) const {
  scratch->symbols.clear();
  if (part.size() > size_t{std::numeric_limits<int32_t>::max()}) {
    return absl::ResourceExhaustedError("a word of more than 2 GiB cannot be encoded");
  }
  bool unknown_waits = false;  // for the next known character, or for one more to fuse with
  const auto add_unknown = [&] {
    if (std::exchange(unknown_waits, false)) scratch->Add(unknown_id_);
  };
  for (size_t at = 0; at < part.size();) {
    const size_t start = at;
    const int32_t unit = byte_level_ ? byte_units_[static_cast<unsigned char>(part[at++])]
                                     : CharacterUnit(NextCodePoint(part, &at));
    if (unit >= 0) {
      add_unknown();
      scratch->Add(unit);
      continue;
    }
    if (byte_fallback_ && AddFallback(part.substr(start, at - start), scratch)) continue;
    if (!has_unknown_) continue;
    if (unknown_id_ < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the text has a character that is no word of the vocabulary, and neither is the unknown "
          "token that should stand for it, '",
          ShowText(unknown_), "'"));
    }
    if (!fuse_unknown_) add_unknown();
    unknown_waits = true;
  }
  add_unknown();
  return absl::OkStatus();
}

bool Bpe::AddFallback(absl::string_view unit, BpeScratch* scratch) const {
  std::string character(unit);
  if (byte_level_) {
    character.clear();
    AppendUtf8(CharacterOfByte(static_cast<uint8_t>(unit[0])), &character);
  }
  const auto id_of = [this](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
  for (const char byte : character) {
    if (id_of(byte) < 0) return false;
  }
  for (const char byte : character) scratch->Add(id_of(byte));
  return true;
}

void Bpe::PushMerge(int32_t position, BpeScratch* scratch) const {
  const BpeScratch::Symbol& left = scratch->symbols[position];
  if (left.next < 0) return;
  const int32_t right = scratch->symbols[left.next].id;
  const auto found = merges_.find(Key(left.id, right));
  if (found == merges_.end()) return;
  scratch->heap.push_back({found->second.rank, position, left.id, right, found->second.result});
}

void Bpe::MergeAll(BpeScratch* scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch->symbols;
  std::vector<Candidate>& heap = scratch->heap;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) PushMerge(static_cast<int32_t>(i), scratch);
  std::make_heap(heap.begin(), heap.end(), IsLater);
  const auto push = [&](int32_t position) {
    const size_t before = heap.size();
    PushMerge(position, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), IsLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), IsLater);
    const Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[best.position];
    // Another merge has taken one of the two since.
    if (left.id != best.left || left.next < 0 || symbols[left.next].id != best.right) continue;
    BpeScratch::Symbol& right = symbols[left.next];
    left.id = best.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[left.next].previous = best.position;
    if (left.previous >= 0) push(left.previous);
    push(best.position);
  }
}

}  // namespace sluice
