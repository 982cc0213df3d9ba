#include "tools/tokenize/text_model.h"

#include <filesystem>
#include <map>
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

// A template, and how messages name it.
struct TemplateText {
  std::string text;
  std::string name;
};

// The templates of a folder, by their names ("default", "tool_use").
using Templates = std::map<std::string, TemplateText>;

constexpr char kDefault[] = "default";
constexpr char kToolUse[] = "tool_use";

// What tokenizer_config.json says.
struct TokenizerConfig {
  SpecialWords words;
  Templates templates;
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

// A template, or several named ones.
absl::StatusOr<Templates> TemplatesField(const std::string& file, const nlohmann::json& config) {
  const auto field = config.find("chat_template");
  if (field == config.end() || field->is_null()) return Templates();
  if (field->is_string()) return Templates{{kDefault, {field->get<std::string>(), file}}};
  Templates templates;
  const auto has = [](const nlohmann::json& entry, const char* name) {
    return entry.is_object() && entry.contains(name) && entry.at(name).is_string();
  };
  for (const nlohmann::json& entry : field->is_array() ? *field : nlohmann::json::array()) {
    if (!has(entry, "name") || !has(entry, "template")) continue;
    const std::string name = entry.at("name").get<std::string>();
    if (name != kDefault && name != kToolUse) continue;
    templates[name] = {entry.at("template").get<std::string>(),
                       absl::StrCat(file, ", '", name, "'")};
  }
  if (!templates.empty()) return templates;
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
  absl::StatusOr<Templates> templates = TemplatesField(file, *json);
  if (!templates.ok()) return templates.status();
  config.templates = *std::move(templates);
  return config;
}

absl::StatusOr<Templates> GivenTemplate(const std::string& file) {
  absl::StatusOr<std::string> text = ReadWholeFile(file, kMostTextBytes);
  if (!text.ok()) return text.status();
  return Templates{{kDefault, {*std::move(text), file}}};
}

// The templates that are files by themselves; as in transformers, those of the configuration do not
// count where there are any.
absl::StatusOr<Templates> TemplateFiles(const fs::path& folder) {
  const fs::path more = folder / "additional_chat_templates";
  Templates templates;
  for (const auto& [name, path] : {std::pair(kDefault, folder / "chat_template.jinja"),
                                   std::pair(kToolUse, more / "tool_use.jinja")}) {
    if (!IsFile(path)) continue;
    absl::StatusOr<std::string> text = ReadWholeFile(path.string(), kMostTextBytes);
    if (!text.ok()) return text.status();
    templates[name] = {*std::move(text), path.string()};
  }
  return templates;
}

ChatTemplate Failing(const absl::Status& why) {
  return {.chat = [why](const Conversation&, LossOn) { return why; },
          .prompt = [why](const Conversation&) { return why; }};
}

// A template that cannot be read is an error of the conversations that need it: data without them
// need none.
ChatTemplate Parsed(const TemplateText& text, const SpecialWords& words) {
  absl::StatusOr<ChatTemplate> parsed = ParseChatTemplate(text.text, text.name, words);
  return parsed.ok() ? *std::move(parsed) : Failing(parsed.status());
}

ChatTemplate OnlyForTools(const std::string& name) {
  return Failing(absl::InvalidArgumentError(
      absl::StrCat(name,
                   ", chat template, is for conversations with tools, and there is no other; "
                   "expected one named 'default'")));
}

// Takes the template "tool_use", where there is one, for conversations that come with tools, as
// transformers does.
void AddChatTemplates(Templates templates, const SpecialWords& words, TextFormat* format) {
  std::erase_if(templates, [](const auto& named) { return named.second.text.empty(); });
  if (templates.empty()) return;
  const auto standard = templates.find(kDefault), tools = templates.find(kToolUse);
  const bool has_tools = tools != templates.end();
  const ChatTemplate plain = standard != templates.end() ? Parsed(standard->second, words)
                                                         : OnlyForTools(tools->second.name);
  const ChatTemplate with_tools = has_tools ? Parsed(tools->second, words) : plain;
  const auto of = [plain, with_tools](const Conversation& conversation) -> const ChatTemplate& {
    return conversation.tools.is_null() ? plain : with_tools;
  };
  format->render_chat = [of](const Conversation& chat, LossOn loss_on) {
    return of(chat).chat(chat, loss_on);
  };
  format->render_prompt = [of](const Conversation& chat) { return of(chat).prompt(chat); };
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
  absl::StatusOr<Templates> templates =
      chat_template.empty() ? TemplateFiles(file.parent_path()) : GivenTemplate(chat_template);
  if (!templates.ok()) return templates.status();
  AddChatTemplates(templates->empty() ? config->templates : *templates, config->words,
                   &model.format);
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
