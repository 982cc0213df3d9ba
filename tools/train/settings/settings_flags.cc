#include "tools/train/settings/settings_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "models/tokens/text/unicode.h"
#include "pipeline/checkpoint/directory/step_folders.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/where_to_go_on.h"
#include "tools/flag_values.h"
#include "tools/help/flags_meant.h"
#include "tools/train/commands/asked_data.h"
#include "tools/train/model_choice.h"
#include "tools/train/settings/kept_settings.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Keys = std::initializer_list<absl::string_view>;

// Of the command line alone. `sluice launch` looks for --json there.
constexpr Keys kOnlyTyped = {"help", "config", "json", "commands"};

// Of one start, or one process, of a run.
constexpr Keys kNotKept = {"resume",      "resume-or-start", "no-save", "overwrite",  "trace",
                           "trace-steps", "transport",       "rank",    "world-size", "master-addr",
                           "master-port", "secret-file",     "replan"};

// What a checkpoint says itself.
constexpr Keys kInCheckpoint = {"init",     "lr",     "weight-decay", "clip",
                                "momentum", "warmup", "lr-schedule"};

constexpr Keys kSavingKeys = {"save", "overwrite", "save-every", "keep", "log", "tensorboard"};

constexpr Keys kPaths = {"data", "tokenizer", "chat-template", "init",        "adapter",
                         "save", "plan",      "log",           "tensorboard", "algorithms"};

// Flags that answer a question in another way than the typed one does, which goes before them.
struct Alternatives {
  absl::string_view typed;
  Keys left_out;
  // Only where the typed one is this; unless it is; only where the one that is left out is this.
  absl::string_view only_typed = "", unless_typed = "", only_left_out = "";
  bool only_of_train = false;
};
constexpr Keys kForStages = {"partition", "plan", "stage-replicas"};
constexpr Keys kForDataParallel = {"plan"};
constexpr Keys kForReplicas = {"stage-replicas"};
constexpr Keys kForPartition = {"plan"};
constexpr Keys kForPlan = {"partition", "stages", "data-parallel", "stage-replicas"};
constexpr Keys kForStageReplicas = {"stages", "partition", "plan", "data-parallel"};
// What says which work each rank has, and what asks for it. `sluice plan` takes both: auto says how
// often there is a partition there.
constexpr Keys kSaysWork = {"partition"};
constexpr Keys kAsksForWork = {"stages", "data-parallel"};
constexpr Keys kForLora = {"adapter"};
constexpr Keys kForAdapter = {"lora"};
constexpr Keys kForResume = {"resume-or-start"};
constexpr Keys kForResumeOrStart = {"resume"};
constexpr Keys kForSave = {"no-save"};
constexpr std::array<Alternatives, 14> kAlternatives = {
    {{.typed = "stages", .left_out = kForStages},
     {.typed = "data-parallel", .left_out = kForDataParallel},
     {.typed = "data-parallel", .left_out = kForReplicas, .unless_typed = "1"},
     {.typed = "data-parallel", .left_out = kSaysWork, .only_typed = "auto", .only_of_train = true},
     {.typed = "partition", .left_out = kForPartition},
     {.typed = "partition",
      .left_out = kAsksForWork,
      .only_left_out = "auto",
      .only_of_train = true},
     {.typed = "plan", .left_out = kForPlan},
     {.typed = "stage-replicas", .left_out = kForStageReplicas},
     {.typed = "lora", .left_out = kForLora},
     {.typed = "adapter", .left_out = kForAdapter},
     {.typed = "resume", .left_out = kForResume},
     {.typed = "resume-or-start", .left_out = kForResumeOrStart},
     {.typed = "save", .left_out = kForSave},
     {.typed = "no-save", .left_out = kSavingKeys}}};

bool IsIn(absl::string_view key, const Keys& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// The name of an option in a file: "steps", or "model" of the argument MODEL.
std::string KeyOf(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return names.empty() ? absl::AsciiStrToLower(option.get_name(/*positional=*/true))
                       : names.front();
}

std::vector<CLI::Option*> OptionsOf(CLI::App& command) {
  return command.get_options([](const CLI::Option*) { return true; });
}

CLI::Option* FindOption(CLI::App& command, const std::string& key) {
  for (CLI::Option* option : OptionsOf(command)) {
    if (KeyOf(*option) == key || option->check_lname(key)) return option;
  }
  return nullptr;
}

std::string NoSuchKey(CLI::App& command, const std::string& key) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : OptionsOf(command)) keys.push_back(KeyOf(*option));
  const std::vector<std::string> meant = FlagsMeant(key, keys);
  return absl::StrCat("'", key, "' is no flag of 'sluice ", command.get_name(), "'",
                      meant.empty() ? ""
                                    : absl::StrCat(", but '", absl::StrJoin(meant, "' and '"),
                                                   meant.size() == 1 ? "' is" : "' are"));
}

bool TakesValue(const CLI::Option& option) { return option.get_expected_min() > 0; }

// What is wrong with `setting` for `option`; empty where nothing is.
std::string Unfit(const Setting& setting, const CLI::Option& option) {
  const bool takes_value = TakesValue(option);
  if (!takes_value && !setting.is_boolean)
    return absl::StrCat("'", setting.key, "' takes true or false");
  if (takes_value && setting.is_boolean)
    return absl::StrCat("'", setting.key, "' takes a value, not true or false");
  return "";
}

// Gives the option the value, as if it had been typed.
void Give(const Setting& setting, CLI::Option* option) {
  if (!TakesValue(*option)) {
    option->add_result(option->get_flag_value(setting.key, setting.values.front()));
  } else if (option->get_items_expected_max() > 1) {
    option->add_result(setting.values);
  } else {
    option->add_result(absl::StrJoin(setting.values, ","));
  }
}

// Whether the option was given, and not to say that it is not meant: --no-save=false.
bool IsMeant(const CLI::Option& option) {
  return option.count() > 0 && (TakesValue(option) || option.as<bool>());
}

// The rows of which something typed answers the question.
std::vector<Alternatives> AnsweredBy(const CLI::App& command) {
  std::vector<Alternatives> answered;
  for (const Alternatives& row : kAlternatives) {
    const CLI::Option* typed = command.get_option_no_throw(absl::StrCat("--", row.typed));
    if (typed == nullptr || !IsMeant(*typed)) continue;
    if (row.only_of_train && command.get_name() != "train") continue;
    const std::string& value = typed->results().back();
    const bool is_it = row.only_typed.empty() || row.only_typed == value;
    if (is_it && row.unless_typed != value) answered.push_back(row);
  }
  return answered;
}

[[noreturn]] void Refuse(const std::string& what) { throw CLI::ValidationError(what); }

// Gives `command` those of the settings that say what nothing typed does. Throws what CLI11 reports.
void TakeSettings(CLI::App& command, const std::string& path,
                  const std::vector<Setting>& settings) {
  const std::vector<Alternatives> answered = AnsweredBy(command);
  const auto is_answered = [&answered](absl::string_view key, const Setting& setting) {
    return std::any_of(answered.begin(), answered.end(), [&](const Alternatives& row) {
      return IsIn(key, row.left_out) &&
             (row.only_left_out.empty() || row.only_left_out == setting.values.front());
    });
  };
  std::vector<std::pair<const Setting*, CLI::Option*>> taken;
  for (const Setting& setting : settings) {
    const std::string place = absl::StrCat(PlaceOf(path, setting), ": ");
    CLI::Option* option = FindOption(command, setting.key);
    if (option == nullptr) Refuse(place + NoSuchKey(command, setting.key));
    if (IsIn(KeyOf(*option), kOnlyTyped))
      Refuse(absl::StrCat(place, "'", setting.key, "' belongs on the command line"));
    const std::string unfit = Unfit(setting, *option);
    if (!unfit.empty()) Refuse(place + unfit);
    for (const auto& [other, same] : taken) {
      if (same != option) continue;
      Refuse(absl::StrCat(place, "'", setting.key, "' says again what '", other->key, "' says"));
    }
    if (option->count() > 0 || is_answered(KeyOf(*option), setting)) continue;
    Give(setting, option);
    taken.emplace_back(&setting, option);
  }
  // All have their values before the first is looked at: --resume then finds what it need not take.
  for (const auto& [setting, option] : taken) {
    try {
      if (!option->get_callback_run()) option->run_callback();
    } catch (const CLI::ParseError& error) {
      Refuse(absl::StrCat(PlaceOf(path, *setting), ": ", error.what()));
    }
  }
}

std::vector<Setting> ReadOrRefuse(const std::string& path) {
  absl::StatusOr<std::vector<Setting>> settings = ReadSettings(path);
  if (!settings.ok()) Refuse(std::string(settings.status().message()));
  return *std::move(settings);
}

// Where a run that goes on from `path` finds how it was started.
struct RunFolder {
  std::string path;       // of the directory of --save; empty: there is no run.toml
  bool is_named = false;  // `path` was a single checkpoint
};

RunFolder FindRunFolder(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(fs::path(path) / kSettingsFile, ignored)) return {.path = path};
  fs::path step = fs::path(path).lexically_normal();
  if (!step.has_filename()) step = step.parent_path();  // it ended with a slash
  const fs::path above = step.has_parent_path() ? step.parent_path() : fs::path(".");
  const std::string name = step.filename().string();
  const bool leads_to_step = IsCheckpoint(fs::canonical(step, ignored).string()) ||
                             name == kLatestLink || ParseStepFolder(name).has_value();
  if (!leads_to_step) return {};
  const bool has_settings = fs::exists(above / kSettingsFile, ignored);
  return {.path = has_settings ? above.string() : "", .is_named = true};
}

// Has the run go on saving to the directory that it goes on from.
void SaveTo(CLI::App& command, const std::string& directory) {
  CLI::Option* const save = command.get_option("--save");
  if (save->count() > 0 || IsMeant(*command.get_option("--no-save"))) return;
  save->add_result(directory);
  save->run_callback();
}

// Where `latest` leads nowhere, or is gone, there may be older checkpoints.
bool IsThere(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path.filename() == kLatestLink ? path.parent_path() : path, ignored);
}

// The flags that must be given, and are not.
std::vector<std::string> Missing(CLI::App& command) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : OptionsOf(command)) {
    if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
  }
  return missing;
}

// What the run.toml that `command` goes on with says of what its checkpoint says itself. The run does
// not take it, but one that --config begins anew would.
std::vector<Setting> LeftToCheckpoint(const CLI::App& command) {
  std::vector<Setting> left;
  for (const char* flag : {"--resume", "--resume-or-start"}) {
    const CLI::Option* const option = command.get_option_no_throw(flag);
    if (option == nullptr || option->count() == 0) continue;
    const RunFolder folder = FindRunFolder(WithoutMarks(option->results().back()));
    if (folder.path.empty()) continue;
    const auto settings = ReadSettings((fs::path(folder.path) / kSettingsFile).string());
    if (!settings.ok()) continue;
    for (const Setting& setting : *settings) {
      if (IsIn(setting.key, kInCheckpoint)) left.push_back(setting);
    }
  }
  return left;
}

void TakeSettingsOf(CLI::App& command, const std::string& path, bool or_start) {
  const RunFolder folder = FindRunFolder(path);
  const std::vector<std::string> missing = Missing(command);
  if (folder.path.empty()) {
    if (missing.empty() || or_start) {
      if (!folder.is_named) SaveTo(command, path);
      return;
    }
    // With all flags, the run may have removed the step that it went on from.
    if (!IsThere(path)) {
      Refuse(absl::StrCat("there is no directory ", path,
                          "; expected one that --save wrote, or one step in it"));
    }
    Refuse(absl::StrCat(path, " has no ", kSettingsFile,
                        " that says how the run was started; give its ", "flags, ",
                        absl::StrJoin(missing, ", "), " among them"));
  }
  const bool goes_on = !or_start || !WhereToGoOn(path).value_or(path).empty();
  if (!or_start && WhereToGoOn(folder.path).value_or(folder.path).empty()) {
    Refuse(absl::StrCat(folder.path, " has no checkpoint yet, only the ", kSettingsFile,
                        " of a run that was ended before its first; begin that run again with "
                        "--resume-or-start ",
                        folder.path, ", which also takes its flags from there"));
  }
  const std::string file = (fs::path(folder.path) / kSettingsFile).string();
  std::vector<Setting> settings;
  for (Setting& setting : ReadOrRefuse(file)) {
    if (goes_on && IsIn(setting.key, kInCheckpoint)) continue;
    if (IsIn(setting.key, kNotKept)) continue;
    if (folder.is_named && IsIn(setting.key, kSavingKeys)) continue;
    // The directory may have been moved since.
    if (setting.key == "save") setting.values = {folder.path};
    settings.push_back(std::move(setting));
  }
  TakeSettings(command, file, settings);
  if (!folder.is_named) SaveTo(command, path);
}

bool IsPath(const std::string& key, const std::string& value) {
  double share = 0;
  if (key == "model") return NamesFile({.model = value});
  if (key == "schedule") return absl::EndsWith(value, ".csv");
  if (key == "validation") return !absl::SimpleAtod(value, &share);
  return IsIn(key, kPaths);
}

std::string FromRoot(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

// What was given, with whole paths.
std::vector<std::string> KeptValues(const CLI::Option& option) {
  std::vector<std::string> values = option.results();
  for (std::string& value : values) {
    value = WithoutMarks(std::move(value));
    if (IsPath(KeyOf(option), value)) value = FromRoot(value);
  }
  return values;
}

bool IsUtf8(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), [](const std::string& value) {
    return FindInvalidUtf8(value) == absl::string_view::npos;
  });
}

bool IsNumeric(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* numeric : {"INT", "UINT", "FLOAT"}) {
    if (absl::StartsWith(type, numeric)) return true;
  }
  return false;
}

}  // namespace

void AddConfigFlag(CLI::App& command) {
  command
      .add_option(
          "--config",
          "File with flags, in TOML, such as seq = 512 for --seq 512, or in YAML (seq: 512) if "
          "its name ends in .yaml or .yml; what is typed on the command line comes first")
      ->type_name("TEXT")
      ->each(
          [&command](const std::string& path) { TakeSettings(command, path, ReadOrRefuse(path)); });
}

void TakeSettingsOfResumedRuns(CLI::App& command) {
  for (const bool or_start : {false, true}) {
    command.get_option(or_start ? "--resume-or-start" : "--resume")
        ->each([&command, or_start](const std::string& path) {
          TakeSettingsOf(command, path, or_start);
        });
  }
}

std::string SettingLine(const CLI::Option& option, SettingsSyntax syntax) {
  const std::string key = KeyOf(option);
  const std::vector<std::string> values = KeptValues(option);
  if (!TakesValue(option)) return FormatSetting(syntax, key, values.back() == "true");
  return FormatSetting(syntax, key, values, IsNumeric(option));
}

std::string SettingsText(const CLI::App& command) {
  std::string text = absl::StrCat(
      kSettingsMark, "\n# 'sluice train --resume' takes from here what is not typed, and --config ",
      "begins such a run anew.\n");
  const std::vector<Setting> left = LeftToCheckpoint(command);
  for (const CLI::Option* option : command.get_options()) {
    const std::string key = KeyOf(*option);
    if (IsIn(key, kOnlyTyped) || IsIn(key, kNotKept)) continue;
    if (option->count() == 0) {
      for (const Setting& setting : left) {
        if (setting.key != key) continue;
        text += FormatSetting(SettingsSyntax::kToml, key, setting.values, IsNumeric(*option));
      }
      continue;
    }
    if (key == "data" && NamesDataChannel(option->results().back())) continue;  // gone with the run
    if (!IsUtf8(KeptValues(*option))) {
      absl::StrAppend(&text, "# ", key, " is not UTF-8: --resume needs it typed\n");
      continue;
    }
    text += SettingLine(*option, SettingsSyntax::kToml);
  }
  return text;
}

std::set<std::string> GivenFlags(const CLI::App& command) {
  std::set<std::string> given;
  for (const CLI::Option* typed : command.parse_order()) given.insert(KeyOf(*typed));
  // What a file says gives way to a plan that was typed.
  const bool resumes = given.contains("resume") || given.contains("resume-or-start");
  if (resumes || given.contains("plan")) return given;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) given.insert(KeyOf(*option));
  }
  return given;
}

}  // namespace sluice
