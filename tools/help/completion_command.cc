#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "tools/command.h"
#include "tools/help/commands.h"
#include "tools/help/completion.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Examples:\n"
    "  source <(sluice completion bash)      # in ~/.bashrc\n"
    "  source <(sluice completion zsh)       # in ~/.zshrc, after compinit\n"
    "  sluice completion fish | source       # in ~/.config/fish/config.fish";

}  // namespace

void AddCompletionCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that makes a shell complete commands");
  command->footer(kExample);
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "The shell")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->callback([&app, shell, exit_code] {
    const CommandEntry root = WithHelpOfCommands(ReadCommands(app));
    std::cout << (*shell == "bash"  ? BashCompletion(root)
                  : *shell == "zsh" ? ZshCompletion(root)
                                    : FishCompletion(root));
    *exit_code = kExitDone;
  });
}

}  // namespace sluice
