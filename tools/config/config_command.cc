#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "comm/printable.h"
#include "models/device/cuda_device.h"
#include "models/tokens/text/unicode.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/flag_values.h"
#include "tools/help/usage_error.h"
#include "tools/train/model_choice.h"
#include "tools/train/settings/kept_settings.h"
#include "tools/train/settings/settings_file.h"
#include "tools/train/settings/settings_flags.h"
#include "tools/train/train_flags.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "An empty answer takes what stands in brackets.\n"
    "Examples:\n"
    "  sluice config\n"
    "  sluice config --default -o small.yaml\n"
    "  sluice train --config run.toml";

constexpr char kNone[] = "none";
constexpr char kInit[] = "--init";

struct ConfigFlags {
  bool only_default = false;
  bool overwrite = false;
  std::string output = kSettingsFile;
};

// What is asked of a flag of `sluice train`.
struct Asked {
  const char* flag;
  const char* words;
  std::string usual;  // empty: there must be an answer
  bool may_be_none = false;
};

std::vector<Asked> Questions() {
  std::vector<Asked> questions = {
      {"--model", "Model: a preset, or a Hugging Face folder or config.json", "char-gpt"},
      {kInit, "Folder of the weights to begin with, or none", "", /*may_be_none=*/true},
      {"--data", "Data: a file or a folder", ""},
      {"--stages", "Stages of the pipeline: a number, or auto for what suits the machine", "auto"},
      {"--dtype", "Compute type: fp32 or bf16", "fp32"},
      {"--micro-batch-size", "Samples per micro-batch", "4"},
      {"--micro-batches", "Micro-batches per step", "8"},
      {"--steps", "Steps", "100"},
      {"--save", "Folder for the checkpoints, or none", "out", /*may_be_none=*/true}};
  if (CudaDeviceCount() > 0)
    questions.insert(questions.begin() + 3, {"--device", "Kernels on: cpu or cuda", "cuda"});
  return questions;
}

// The flags of `sluice train`, which take answers as if these were typed.
class Answers {
 public:
  Answers() {
    AddTrainFlags(train_, &flags_);
    CheckFlagValues(train_);
  }

  // An error says what is wrong with the answer, which is then forgotten.
  absl::Status Take(const Asked& asked, const std::string& answer) {
    if (FindInvalidUtf8(answer) != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(asked.flag, ": the answer is not UTF-8, as the file must be"));
    }
    CLI::Option* option = train_.get_option(asked.flag);
    option->add_result(answer);
    absl::Status status;
    try {
      option->run_callback();
      status = Check(asked.flag);
    } catch (const CLI::ParseError& error) {
      status = absl::InvalidArgumentError(ExplainUsageError(error, train_));
    }
    if (!status.ok()) option->clear();
    return status;
  }

  // Of the model that has been answered; "": it has none.
  std::string FolderOfWeights() const { return sluice::FolderOfWeights(flags_.question.model); }

  std::string Line(const Asked& asked, SettingsSyntax syntax) const {
    return SettingLine(*train_.get_option(asked.flag), syntax);
  }

 private:
  absl::Status Check(const std::string& flag) const {
    const TrainQuestion& question = flags_.question;
    std::error_code ignored;
    if (flag == "--model") return ResolveTrainable(question.model, 0).status();
    if (flag == "--data" && !std::filesystem::exists(question.data.path, ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--data ", question.data.path, ": there is no such file or folder"));
    }
    // Of the others what the checks of their own values do not see, such as a number of stages.
    return flag == "--stages" || flag == "--device" ? QuestionOf(flags_).status()
                                                    : absl::OkStatus();
  }

  CLI::App train_{"", "sluice train"};
  TrainFlags flags_;
};

// The answer to one question, after as many tries as it takes.
absl::StatusOr<std::string> Ask(const Asked& asked, Answers* answers) {
  while (true) {
    std::cerr << asked.words << (asked.usual.empty() ? "" : absl::StrCat(" [", asked.usual, "]"))
              << ": " << std::flush;
    std::string answer;
    if (!std::getline(std::cin, answer)) {
      std::cerr << "\n";
      return absl::InvalidArgumentError(absl::StrCat("standard input ended at the question about ",
                                                     asked.flag,
                                                     "; 'sluice config --default' asks nothing"));
    }
    absl::StripAsciiWhitespace(&answer);
    if (answer.empty()) answer = asked.usual;
    if (answer.empty()) {
      PrintNotice(absl::StrCat(asked.flag, " needs an answer"));
      continue;
    }
    if (answer == kNone && asked.may_be_none) return answer;
    const absl::Status status = answers->Take(asked, answer);
    if (status.ok()) return answer;
    PrintError(status);
  }
}

// The lines of the file about one question, answered.
absl::StatusOr<std::string> LinesOf(const Asked& asked, bool only_default, SettingsSyntax syntax,
                                    Answers* answers) {
  const std::string comment = absl::StrCat("# ", asked.words, "\n");
  const auto unsaid = [&] {
    const absl::string_view key = absl::StripPrefix(asked.flag, "--");
    return absl::StrCat(comment, "# ", FormatSetting(syntax, key, {"PATH"}, /*numeric=*/false));
  };
  if (only_default && asked.usual.empty()) return unsaid();
  if (only_default) {
    const absl::Status status = answers->Take(asked, asked.usual);
    if (!status.ok()) return status;
    return comment + answers->Line(asked, syntax);
  }
  const absl::StatusOr<std::string> answer = Ask(asked, answers);
  if (!answer.ok()) return answer.status();
  if (*answer == kNone && asked.may_be_none) return unsaid();
  return comment + answers->Line(asked, syntax);
}

// The name of a file as a line of text may have it, also where it has a newline or is not UTF-8; in
// quotes where it is more than one word.
std::string ShownName(const std::string& name) {
  const std::string printable = ToPrintableLine(name);
  return absl::StrContains(printable, ' ') ? absl::StrCat("'", printable, "'") : printable;
}

absl::Status RunConfig(const ConfigFlags& flags) {
  std::error_code ignored;
  if (!flags.overwrite && std::filesystem::exists(flags.output, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.output, " is there already; give another name with -o, or --overwrite"));
  }
  if (absl::Status status = CheckOutput(flags.output); !status.ok()) return status;
  Answers answers;
  const std::string train = absl::StrCat("sluice train --config ", ShownName(flags.output));
  std::string text =
      absl::StrCat("# ", train, "\n# 'sluice train --help' lists what else may stand here.\n");
  for (Asked& asked : Questions()) {
    if (asked.flag == absl::string_view(kInit)) {
      asked.usual = answers.FolderOfWeights();
      if (asked.usual.empty()) continue;  // a model without weights begins with random ones
    }
    const absl::StatusOr<std::string> lines =
        LinesOf(asked, flags.only_default, SyntaxOf(flags.output), &answers);
    if (!lines.ok()) return lines.status();
    text += *lines;
  }
  if (absl::Status status = WriteOutput(flags.output, text); !status.ok()) return status;
  std::cout << "wrote " << ShownName(flags.output) << "; to train: " << train
            << (flags.only_default ? " --data PATH\n" : "\n");
  return absl::OkStatus();
}

}  // namespace

void AddConfigCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("config", "Ask what to train, and write the flags to a file");
  command->footer(kExample);
  auto flags = std::make_shared<ConfigFlags>();
  command->add_flag("--default", flags->only_default, "Ask nothing: write what stands in brackets");
  command
      ->add_option("-o,--output", flags->output,
                   "File to write: YAML if its name ends in .yaml or .yml, otherwise TOML")
      ->capture_default_str();
  command->add_flag("--overwrite", flags->overwrite, "Replace the file if it is there");
  command->callback([flags, exit_code] {
    const absl::Status status = RunConfig(*flags);
    *exit_code = status.ok() ? kExitDone : Fail(status);
  });
}

}  // namespace sluice
