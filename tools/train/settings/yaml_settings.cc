#include "tools/train/settings/yaml_settings.h"

#include <yaml.h>

#include <algorithm>
#include <cassert>
#include <initializer_list>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr std::initializer_list<absl::string_view> kTrue = {"true", "yes", "on"};
constexpr std::initializer_list<absl::string_view> kFalse = {"false", "no", "off"};

bool IsOneOf(const std::string& text, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), absl::AsciiStrToLower(text)) != words.end();
}

bool IsNull(const std::string& text) { return IsOneOf(text, {"", "~", "null"}); }

class Event {
 public:
  Event() = default;
  ~Event() { yaml_event_delete(&event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  yaml_event_t* get() { return &event_; }
  yaml_event_type_t type() const { return event_.type; }
  int line() const { return static_cast<int>(event_.start_mark.line) + 1; }
  bool IsScalar() const { return type() == YAML_SCALAR_EVENT; }
  // Of a scalar; others have none of these.
  bool has_tag() const { return event_.data.scalar.tag != nullptr; }
  bool is_plain() const { return event_.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }
  std::string text() const {
    return {reinterpret_cast<const char*>(event_.data.scalar.value), event_.data.scalar.length};
  }

 private:
  yaml_event_t event_ = {};
};

// The events of a text, and the settings that they make.
class Reader {
 public:
  // `text` and `path` must outlive it.
  Reader(const std::string& text, const std::string& path) : path_(path) {
    const int done = yaml_parser_initialize(&parser_);
    assert(done == 1);  // it fails where memory ends, and then operator new would have
    static_cast<void>(done);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  absl::StatusOr<std::vector<Setting>> Read() {
    std::vector<Setting> settings;
    bool had_document = false;
    while (true) {
      Event event;
      absl::Status status = Next(&event);
      if (!status.ok()) return status;
      if (event.type() == YAML_STREAM_END_EVENT) return settings;
      if (event.type() == YAML_DOCUMENT_START_EVENT) {
        if (had_document) return Wrong(event.line(), "a second document begins; expected one");
        had_document = true;
        status = ReadDocument(&settings);
        if (!status.ok()) return status;
      }
    }
  }

 private:
  absl::Status Wrong(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, " of ", path_, ": ", what));
  }

  absl::Status WrongValue(const Setting& setting, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(PlaceOf(path_, setting), ": '", setting.key, "'", what,
                     "; expected flag: a text, a number, true, false, or a list of texts or "
                     "numbers"));
  }

  absl::Status Next(Event* event) {
    if (yaml_parser_parse(&parser_, event->get()) == 1) return absl::OkStatus();
    if (parser_.error == YAML_READER_ERROR) {  // which has no line
      return absl::InvalidArgumentError(absl::StrCat("byte ", parser_.problem_offset, " of ", path_,
                                                     " is not YAML: ", parser_.problem));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "line ", parser_.problem_mark.line + 1, " of ", path_,
        " is not YAML: ", parser_.problem != nullptr ? parser_.problem : "memory ended"));
  }

  absl::Status ReadDocument(std::vector<Setting>* settings) {
    Event first;
    if (absl::Status status = Next(&first); !status.ok()) return status;
    if (first.IsScalar() && first.is_plain() && IsNull(first.text())) return absl::OkStatus();
    if (first.type() != YAML_MAPPING_START_EVENT) {
      return Wrong(first.line(), "expected lines of flag: value");
    }
    while (true) {
      Event key;
      if (absl::Status status = Next(&key); !status.ok()) return status;
      if (key.type() == YAML_MAPPING_END_EVENT) return absl::OkStatus();
      if (!key.IsScalar()) return Wrong(key.line(), "expected the name of a flag");
      Setting setting;
      setting.key = key.text();
      setting.line = key.line();
      if (absl::Status status = ReadValue(&setting); !status.ok()) return status;
      settings->push_back(std::move(setting));
    }
  }

  absl::Status ReadValue(Setting* setting) {
    Event value;
    if (absl::Status status = Next(&value); !status.ok()) return status;
    if (value.type() == YAML_MAPPING_START_EVENT) return WrongValue(*setting, " is a table");
    if (value.type() != YAML_SEQUENCE_START_EVENT) {
      if (absl::Status status = TakeScalar(value, setting); !status.ok()) return status;
      std::string& text = setting->values.front();
      const bool is_true = IsOneOf(text, kTrue);
      setting->is_boolean = value.is_plain() && (is_true || IsOneOf(text, kFalse));
      if (setting->is_boolean) text = is_true ? "true" : "false";
      return absl::OkStatus();
    }
    setting->is_list = true;
    while (true) {
      Event item;
      if (absl::Status status = Next(&item); !status.ok()) return status;
      if (item.type() == YAML_SEQUENCE_END_EVENT) return absl::OkStatus();
      if (absl::Status status = TakeScalar(item, setting); !status.ok()) return status;
    }
  }

  absl::Status TakeScalar(const Event& value, Setting* setting) const {
    if (!value.IsScalar() || value.has_tag() || (value.is_plain() && IsNull(value.text()))) {
      return WrongValue(*setting, " has a value that no flag takes");
    }
    setting->values.push_back(value.text());
    return absl::OkStatus();
  }

  const std::string& path_;
  yaml_parser_t parser_;
};

// Writes one line, in the fewest quotes that it takes.
class Writer {
 public:
  explicit Writer(std::string* out) {
    int done = yaml_emitter_initialize(&emitter_);
    assert(done == 1);  // as for a Reader
    static_cast<void>(done);
    yaml_emitter_set_output(&emitter_, &Append, out);
    yaml_emitter_set_unicode(&emitter_, 1);
    yaml_emitter_set_width(&emitter_, -1);  // no end of the line
    yaml_event_t event;
    yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING);
    Emit(&event);
    yaml_document_start_event_initialize(&event, nullptr, nullptr, nullptr, /*implicit=*/1);
    Emit(&event);
    yaml_mapping_start_event_initialize(&event, nullptr, nullptr, 1, YAML_BLOCK_MAPPING_STYLE);
    Emit(&event);
  }
  ~Writer() { yaml_emitter_delete(&emitter_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void Scalar(absl::string_view text) {
    const std::string word(text);
    const bool needs_quotes = IsOneOf(word, kTrue) || IsOneOf(word, kFalse) || IsNull(word) ||
                              std::any_of(text.begin(), text.end(), absl::ascii_iscntrl);
    yaml_event_t event;
    yaml_scalar_event_initialize(
        &event, nullptr, nullptr, reinterpret_cast<const unsigned char*>(text.data()),
        static_cast<int>(text.size()), 1, 1,
        needs_quotes ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE);
    Emit(&event);
  }

  void List(const std::vector<std::string>& values) {
    yaml_event_t event;
    yaml_sequence_start_event_initialize(&event, nullptr, nullptr, 1, YAML_FLOW_SEQUENCE_STYLE);
    Emit(&event);
    for (const std::string& value : values) Scalar(value);
    yaml_sequence_end_event_initialize(&event);
    Emit(&event);
  }

  void End() {
    yaml_event_t event;
    yaml_mapping_end_event_initialize(&event);
    Emit(&event);
    yaml_document_end_event_initialize(&event, /*implicit=*/1);
    Emit(&event);
    yaml_stream_end_event_initialize(&event);
    Emit(&event);
  }

 private:
  static int Append(void* out, unsigned char* bytes, size_t count) {
    static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(bytes), count);
    return 1;
  }

  // Takes the event, which it frees.
  void Emit(yaml_event_t* event) {
    const int done = yaml_emitter_emit(&emitter_, event);
    assert(done == 1);
    static_cast<void>(done);
  }

  yaml_emitter_t emitter_;
};

}  // namespace

absl::StatusOr<std::vector<Setting>> ParseYamlSettings(const std::string& text,
                                                       const std::string& path) {
  return Reader(text, path).Read();
}

std::string FormatYamlSetting(absl::string_view key, const std::vector<std::string>& values) {
  std::string out;
  Writer writer(&out);
  writer.Scalar(key);
  if (values.size() == 1) {
    writer.Scalar(values.front());
  } else {
    writer.List(values);
  }
  writer.End();
  return out;
}

}  // namespace sluice
