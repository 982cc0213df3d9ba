#include "models/tokens/decode.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "models/tokens/byte_characters.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

// The end of the chain.
class Output : public DecoderStage {
 public:
  explicit Output(std::string* text) : text_(text) {}
  void Take(absl::string_view part, bool, bool) override { absl::StrAppend(text_, part); }

 private:
  std::string* const text_;
};

class Inner : public DecoderStage {
 public:
  explicit Inner(DecoderStage* next) : next_(next) {}

 protected:
  void Give(absl::string_view word) { next_->Take(word, true, true); }
  void GivePart(absl::string_view part, bool is_first, bool is_last) {
    next_->Take(part, is_first, is_last);
  }

 private:
  DecoderStage* const next_;
};

// Of stages that need a word as a whole.
class OfWords : public Inner {
 public:
  using Inner::Inner;
  void Take(absl::string_view part, bool is_first, bool is_last) final {
    if (is_first && is_last) return TakeWord(part);
    absl::StrAppend(&word_, part);
    if (is_last) TakeWord(std::exchange(word_, ""));
  }

 protected:
  virtual void TakeWord(absl::string_view word) = 0;

 private:
  std::string word_;  // as far as it has come
};

class ByteLevelStage : public OfWords {
 public:
  using OfWords::OfWords;
  void Finish() override { Give(/*more_to_come=*/false); }

 protected:
  void TakeWord(absl::string_view word) override {
    if (!BytesOfWord(word, &bytes_)) absl::StrAppend(&bytes_, word);
    Give(/*more_to_come=*/true);
  }

 private:
  void Give(bool more_to_come) {
    std::string text;
    MoveValidUtf8(more_to_come, &bytes_, &text);
    GivePart(text, std::exchange(is_first_, false), !more_to_come);
  }

  std::string bytes_;  // of a character that is not whole yet
  bool is_first_ = true;
};

class ByteFallbackStage : public OfWords {
 public:
  using OfWords::OfWords;
  void Finish() override { GiveBytes(); }

 protected:
  void TakeWord(absl::string_view word) override {
    constexpr size_t kLength = 6;  // <0xE5>
    uint32_t byte = 0;
    if (word.size() == kLength && absl::StartsWith(word, "<0x") && absl::EndsWith(word, ">") &&
        absl::ascii_isxdigit(static_cast<unsigned char>(word[3])) &&
        absl::SimpleHexAtoi(word.substr(3, 2), &byte)) {
      bytes_.push_back(static_cast<char>(byte));
      return;
    }
    GiveBytes();
    Give(word);
  }

 private:
  // A row of bytes that is not UTF-8 is a replacement character for each of them.
  void GiveBytes() {
    if (FindInvalidUtf8(bytes_) == absl::string_view::npos) {
      if (!bytes_.empty()) Give(bytes_);
    } else {
      for (size_t i = 0; i < bytes_.size(); ++i) Give("\xEF\xBF\xBD");
    }
    bytes_.clear();
  }

  std::string bytes_;  // of the words of bytes since the last other word
};

class FuseStage : public Inner {
 public:
  using Inner::Inner;
  void Take(absl::string_view part, bool, bool) override {
    GivePart(part, std::exchange(is_first_, false), false);
  }
  void Finish() override { GivePart("", is_first_, true); }

 private:
  bool is_first_ = true;
};

class StripStage : public Inner {
 public:
  StripStage(const StripDecoder& strip, DecoderStage* next) : Inner(next), strip_(strip) {
    AppendUtf8(strip.content, &content_);
  }
  void Take(absl::string_view part, bool is_first, bool is_last) override {
    if (is_first) {
      may_drop_ = strip_.start;
      held_ = 0;
    }
    std::string kept;
    for (size_t at = 0; at < part.size();) {
      const size_t start = at;
      const bool is_content = NextCodePoint(part, &at) == strip_.content;
      if (is_content && may_drop_ > 0) {
        --may_drop_;
        continue;
      }
      may_drop_ = 0;
      if (is_content && held_ < strip_.stop) {
        ++held_;
        continue;
      }
      if (!is_content) {
        for (; held_ > 0; --held_) kept.append(content_);
      }
      absl::StrAppend(&kept, part.substr(start, at - start));
    }
    GivePart(kept, is_first, is_last);
  }

 private:
  const StripDecoder strip_;
  std::string content_;
  size_t may_drop_ = 0;  // at the start of the word
  size_t held_ = 0;      // of `content` that may turn out to be the word's end
};

class ReplaceStage : public OfWords {
 public:
  ReplaceStage(ReplaceDecoder replace, DecoderStage* next)
      : OfWords(next), replace_(std::move(replace)) {}

 protected:
  void TakeWord(absl::string_view word) override {
    Give(absl::StrReplaceAll(word, {{replace_.text, replace_.content}}));
  }

 private:
  const ReplaceDecoder replace_;
};

class MetaspaceStage : public Inner {
 public:
  MetaspaceStage(MetaspaceDecoder metaspace, DecoderStage* next)
      : Inner(next), metaspace_(std::move(metaspace)) {}
  void Take(absl::string_view part, bool is_first, bool is_last) override {
    const absl::string_view space = in_first_word_ && metaspace_.drop_in_first ? "" : " ";
    GivePart(absl::StrReplaceAll(part, {{metaspace_.replacement, space}}), is_first, is_last);
    if (is_last) in_first_word_ = false;
  }

 private:
  const MetaspaceDecoder metaspace_;
  bool in_first_word_ = true;
};

// Stands for a missing decoder.
class JoinStage : public Inner {
 public:
  using Inner::Inner;
  void Take(absl::string_view part, bool is_first, bool is_last) override {
    if (is_first && !std::exchange(is_first_word_, false)) Give(" ");
    GivePart(part, is_first, is_last);
  }

 private:
  bool is_first_word_ = true;
};

struct MakeStage {
  DecoderStage* next;

  using Made = std::unique_ptr<DecoderStage>;
  Made operator()(const ByteLevelDecoder&) { return std::make_unique<ByteLevelStage>(next); }
  Made operator()(const ByteFallbackDecoder&) { return std::make_unique<ByteFallbackStage>(next); }
  Made operator()(const FuseDecoder&) { return std::make_unique<FuseStage>(next); }
  Made operator()(const StripDecoder& step) { return std::make_unique<StripStage>(step, next); }
  Made operator()(const ReplaceDecoder& step) { return std::make_unique<ReplaceStage>(step, next); }
  Made operator()(const MetaspaceDecoder& step) {
    return std::make_unique<MetaspaceStage>(step, next);
  }
};

}  // namespace

DecoderChain::DecoderChain(const std::vector<DecoderStep>& steps, bool has_decoder) {
  stages_.push_back(std::make_unique<Output>(&text_));
  if (!has_decoder) stages_.push_back(std::make_unique<JoinStage>(stages_.back().get()));
  for (size_t i = steps.size(); i-- > 0;) {
    stages_.push_back(std::visit(MakeStage{stages_.back().get()}, steps[i]));
  }
}

void DecoderChain::Take(absl::string_view word) { stages_.back()->Take(word, true, true); }

void DecoderChain::Finish() {
  for (size_t i = stages_.size(); i-- > 0;) stages_[i]->Finish();
}

std::string DecoderChain::TakeText() { return std::exchange(text_, ""); }

}  // namespace sluice
