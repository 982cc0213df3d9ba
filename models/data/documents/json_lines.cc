#include "models/data/documents/json_lines.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "models/data/corpora/token_store.h"
#include "models/data/documents/document.h"
#include "models/data/sources.h"
#include "models/files/positioned_file.h"
#include "models/kernels/on_threads.h"

namespace sluice {
namespace {

constexpr size_t kBlock = size_t{4} << 20;         // bytes that are read at a time
constexpr size_t kLongestLine = size_t{64} << 20;  // bytes; the limit of JSON documents, too

// One line, and what became of it.
struct Line {
  int64_t number = 0;  // from 1
  absl::string_view text;
  Document::Form form = Document::Form::kText;
  absl::StatusOr<std::vector<int32_t>> tokens = std::vector<int32_t>();
};

// Hands out the lines of a file, some MiB at a time.
class LineReader {
 public:
  explicit LineReader(PositionedFile file) : file_(std::move(file)) {}

  // The next lines that are not empty; none: the file has ended. They live until the next call.
  absl::StatusOr<std::vector<Line>> Next() {
    std::vector<Line> lines;
    while (lines.empty() && !ended()) {
      if (absl::Status status = Read(); !status.ok()) return status;
      size_t begin = 0;
      for (size_t end = 0; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1) {
        Take({text_.data() + begin, end - begin}, &lines);
      }
      if (at_ == file_.size() && begin < text_.size()) {
        Take({text_.data() + begin, text_.size() - begin}, &lines);
        begin = text_.size();
      }
      used_ = begin;
      if (text_.size() - begin > kLongestLine) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_.path(), ": line ", number_ + 1, " is longer than ", kLongestLine,
                         " bytes; expected shorter lines, a document each"));
      }
    }
    return lines;
  }

 private:
  bool ended() const { return at_ == file_.size() && used_ == text_.size(); }

  // Drops what was handed out, and adds a block.
  absl::Status Read() {
    text_.erase(0, used_);
    used_ = 0;
    const size_t have = text_.size();
    const auto more = std::min(kBlock, static_cast<size_t>(file_.size() - at_));
    text_.resize(have + more);
    absl::Status status =
        file_.ReadAt(at_, absl::MakeSpan(reinterpret_cast<uint8_t*>(text_.data()) + have, more));
    at_ += static_cast<int64_t>(more);
    return status;
  }

  void Take(absl::string_view text, std::vector<Line>* lines) {
    ++number_;
    if (absl::StripAsciiWhitespace(text).empty()) return;
    lines->push_back({.number = number_, .text = text});
  }

  const PositionedFile file_;
  std::string text_;
  size_t used_ = 0;     // bytes of `text_` that were handed out
  int64_t at_ = 0;      // bytes of the file that were read
  int64_t number_ = 0;  // lines
};

void EncodeLine(DocumentEncoder& encoder, Line* line) {
  const absl::StatusOr<Document> document = ParseDocument(line->text);
  if (!document.ok()) {
    line->tokens = document.status();
    return;
  }
  line->form = document->form;
  line->tokens = encoder.Encode(*document);
}

// Encodes lines with several threads, each of which remembers the words that it has met.
class LineEncoders {
 public:
  LineEncoders(const TextFormat& format, const JsonLinesOptions& options) {
    for (int i = 0; i < std::max(options.threads, 1); ++i) {
      encoders_.push_back(std::make_unique<DocumentEncoder>(format, options.loss_on));
    }
  }

  void Encode(std::vector<Line>* lines) {
    OnThreads(static_cast<int>(encoders_.size()), lines->size(), [&](int thread, size_t i) {
      EncodeLine(*encoders_[static_cast<size_t>(thread)], &(*lines)[i]);
    });
  }

 private:
  std::vector<std::unique_ptr<DocumentEncoder>> encoders_;
};

// Collects the documents of all lines.
class Collector {
 public:
  Collector(int64_t seq, bool has_end) : seq_(seq), has_end_(has_end) {
    lines_.documents.begins = {0};
  }

  absl::Status Add(Line& line) {
    ++lines_.lines;
    std::vector<int32_t>& tokens = *line.tokens;
    const auto seq = static_cast<size_t>(seq_);
    if (line.form != Document::Form::kText && tokens.size() > seq) {
      ++lines_.cut;
      lines_.cut_tokens += static_cast<int64_t>(tokens.size() - seq);
      tokens.resize(seq);
    }
    const auto counted = tokens.empty() ? 0
                                        : std::count_if(tokens.begin() + 1, tokens.end(),
                                                        [](int32_t token) { return token >= 0; });
    if (counted == 0) {
      ++lines_.without_target;
      return absl::OkStatus();
    }
    if (!has_end_ && line.form != Document::Form::kMessages) ++lines_.without_end;
    lines_.documents.begins.push_back(lines_.documents.begins.back() +
                                      static_cast<int64_t>(tokens.size()));
    lines_.documents.counted.push_back(static_cast<int32_t>(counted));
    return store_.Append(tokens);
  }

  absl::StatusOr<JsonLines> Finish() {
    absl::StatusOr<std::unique_ptr<TokenSource>> tokens = store_.Finish();
    if (!tokens.ok()) return tokens.status();
    lines_.documents.tokens = *std::move(tokens);
    return std::move(lines_);
  }

 private:
  const int64_t seq_;
  const bool has_end_;
  JsonLines lines_;
  TokenStore store_;
};

absl::Status AddFile(const std::string& path, LineEncoders& encoders, Collector& collector) {
  absl::StatusOr<PositionedFile> file = PositionedFile::Open(path);
  if (!file.ok()) return file.status();
  LineReader reader(*std::move(file));
  while (true) {
    absl::StatusOr<std::vector<Line>> lines = reader.Next();
    if (!lines.ok()) return lines.status();
    if (lines->empty()) return absl::OkStatus();
    encoders.Encode(&*lines);
    for (Line& line : *lines) {
      absl::Status status = line.tokens.status();
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat(path, ": line ", line.number, ", ", status.message()));
      }
      if (status = collector.Add(line); !status.ok()) return status;
    }
  }
}

}  // namespace

std::vector<std::string> JsonLines::Notes(const std::string& path, int64_t seq) const {
  std::vector<std::string> notes;
  if (cut > 0) {
    notes.push_back(absl::StrCat(path, ": ", GroupDigits(cut), " of ", GroupDigits(lines),
                                 " documents are longer than the ", seq,
                                 " tokens of a sequence; their last ", GroupDigits(cut_tokens),
                                 " tokens are not used (a longer --seq keeps them)"));
  }
  if (without_target > 0) {
    notes.push_back(absl::StrCat(path, ": ", GroupDigits(without_target), " of ",
                                 GroupDigits(lines),
                                 " documents have no token that counts in the loss, and are left "
                                 "out"));
  }
  if (without_end > 0) {
    notes.push_back(absl::StrCat(path, ": ", GroupDigits(without_end), " of ", GroupDigits(lines),
                                 " documents end without a word that says so: the tokenizer's "
                                 "folder has no 'eos_token' in a tokenizer_config.json"));
  }
  return notes;
}

absl::StatusOr<JsonLines> ReadJsonLines(const std::vector<std::string>& paths,
                                        const TextFormat& format, const JsonLinesOptions& options) {
  LineEncoders encoders(format, options);
  Collector collector(options.seq, !format.end.empty());
  for (const std::string& path : paths) {
    if (absl::Status status = AddFile(path, encoders, collector); !status.ok()) return status;
  }
  return collector.Finish();
}

}  // namespace sluice
