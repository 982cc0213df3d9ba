#include "tools/tokenize/text_model.h"

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/data/documents/chat_template.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"
#include "tools/files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// What tokenizer_config.json says.
struct TokenizerConfig {
  SpecialWords words;
  std::string chat_template;
};

absl::Status FieldError(const std::string& file, absl::string_view field,
                        const nlohmann::json& found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": field '", field, "' is ", ShowJson(found), "; expected ", expected));
}

// A special token: a text, or an object with its `content`; null or missing: none.
absl::StatusOr<std::string> TokenField(const std::string& file, const nlohmann::json& config,
                                       const char* name) {
  const auto field = config.find(name);
  if (field == config.end() || field->is_null()) return "";
  if (field->is_string()) return field->get<std::string>();
  if (field->is_object() && field->contains("content") && field->at("content").is_string()) {
    return field->at("content").get<std::string>();
  }
  return FieldError(file, name, *field, "a text, or an object with its 'content'");
}

// A template, or of several named ones that named "default".
absl::StatusOr<std::string> TemplateField(const std::string& file, const nlohmann::json& config) {
  const auto field = config.find("chat_template");
  if (field == config.end() || field->is_null()) return "";
  if (field->is_string()) return field->get<std::string>();
  if (field->is_array()) {
    for (const nlohmann::json& entry : *field) {
      if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" &&
          entry.contains("template") && entry.at("template").is_string()) {
        return entry.at("template").get<std::string>();
      }
    }
  }
  return FieldError(file, "chat_template", *field, "a text, or a list with one named 'default'");
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const fs::path& folder) {
  const std::string file = (folder / "tokenizer_config.json").string();
  if (!IsFile(file)) return TokenizerConfig();
  const absl::StatusOr<std::string> text = ReadWholeFile(file, kMostJsonBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> json =
      ParseJsonObject(*text, file, "expected a Hugging Face tokenizer_config.json");
  if (!json.ok()) return json.status();
  TokenizerConfig config;
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    absl::StatusOr<std::string> word = TokenField(file, *json, name);
    if (!word.ok()) return word.status();
    if (!word->empty()) config.words[name] = *std::move(word);
  }
  absl::StatusOr<std::string> chat = TemplateField(file, *json);
  if (!chat.ok()) return chat.status();
  config.chat_template = *std::move(chat);
  return config;
}

// Reads the template into `format`, where there is one.
absl::Status AddChatTemplate(const fs::path& folder, const std::string& given,
                             TokenizerConfig config, TextFormat* format) {
  std::string name = (folder / "tokenizer_config.json").string();
  std::string file = given;
  if (file.empty() && IsFile(folder / "chat_template.jinja")) {
    file = (folder / "chat_template.jinja").string();
  }
  if (!file.empty()) {
    absl::StatusOr<std::string> text = ReadWholeFile(file, kMostTextBytes);
    if (!text.ok()) return text.status();
    config.chat_template = *std::move(text);
    name = file;
  }
  if (config.chat_template.empty()) return absl::OkStatus();
  absl::StatusOr<ChatTemplate> parsed = ParseChatTemplate(config.chat_template, name, config.words);
  if (!parsed.ok()) {
    // Data without conversations need none; those with them are told why.
    format->render_chat = [why = parsed.status()](const Conversation&) { return why; };
    format->render_prompt = [why = parsed.status()](const Conversation&) { return why; };
    return absl::OkStatus();
  }
  format->render_chat = std::move(parsed->chat);
  format->render_prompt = std::move(parsed->prompt);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextModel> ReadTextModel(const std::string& path, const std::string& chat_template) {
  std::error_code ignored;
  const fs::path file =
      fs::is_directory(path, ignored) ? fs::path(path) / "tokenizer.json" : fs::path(path);
  const absl::StatusOr<std::string> json = ReadWholeFile(file.string(), kMostTextBytes);
  if (!json.ok()) return json.status();
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer =
      Tokenizer::Load(*json, file.string());
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<TokenizerConfig> config = ReadTokenizerConfig(file.parent_path());
  if (!config.ok()) return config.status();
  TextModel model;
  model.tokenizer = *std::move(tokenizer);
  model.format = {.tokenizer = model.tokenizer.get(), .end = config->words["eos_token"]};
  absl::Status status =
      AddChatTemplate(file.parent_path(), chat_template, *std::move(config), &model.format);
  if (!status.ok()) return status;
  return model;
}

std::string TokenizerOf(const std::string& model) {
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(model, ignored) ? fs::path(model) : fs::path(model).parent_path();
  const fs::path file = folder / "tokenizer.json";
  const bool names_folder = fs::exists(model, ignored);
  return names_folder && IsFile(file) ? file.string() : "";
}

}  // namespace sluice
