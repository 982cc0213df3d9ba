// A talk with a model that was trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/built_files.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Mistral's template writes the system's text into the last of the user's turns, whether or not it
// marks the assistant's.
TEST_F(TrainCommandTest, ChatSaysTheSystemsTextWhereverTheTemplateWritesIt) {
  Summary("--steps 1 --save " + folder_ / "out");
  WriteBytes(folder_ / "out/latest/tokenizer.json", kThreeWords);
  for (const char* answer :
       {"{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}"}) {
    WriteBytes(folder_ / "t.jinja",
               absl::StrCat("{% for m in messages[1:] %}{% if m.role == 'user' %}n",
                            "{% if loop.last %}{{ messages[0].content }}{% endif %}{{ m.content }}",
                            "{% else %}", answer, "{% endif %}{% endfor %}"));
    // The number of tokens that the model is given shows in what is said when there is no room.
    const int status =
        std::system(absl::StrCat("echo d | ", SluiceProgram(), " chat --load ", folder_ / "out",
                                 " --chat-template ", folder_ / "t.jinja",
                                 " --system AAAA --context 5 2>", folder_ / "err")
                        .c_str());
    EXPECT_EQ(WEXITSTATUS(status), kExitBadInput);
    EXPECT_THAT(ReadBytes(folder_ / "err"), HasSubstr("the conversation has 6 tokens")) << answer;
  }
}

// The real `sluice` at a terminal of its own.
class AtTerminal {
 public:
  explicit AtTerminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SluiceProgram());
    std::vector<char*> words;
    for (std::string& word : arguments) words.push_back(word.data());
    words.push_back(nullptr);
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      execv(words.front(), words.data());
      _exit(127);
    }
  }
  ~AtTerminal() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    close(terminal_);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;

  void Type(const std::string& text) {
    ASSERT_EQ(write(terminal_, text.data(), text.size()), std::ssize(text));
  }
  // What is shown next; nothing once the program has closed the terminal.
  std::string Read() const {
    constexpr int kMostWait = 120'000;  // milliseconds, only against a hang
    pollfd ready = {.fd = terminal_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, kMostWait) != 1) return "";
    char shown[256];
    const ssize_t count = read(terminal_, shown, sizeof(shown));
    return {shown, static_cast<size_t>(std::max<ssize_t>(count, 0))};
  }
  // Reads until `text` is shown; returns what came behind it.
  std::string ReadBehind(const std::string& text) const {
    std::string shown;
    while (!absl::StrContains(shown, text)) {
      const std::string more = Read();
      if (more.empty()) {
        ADD_FAILURE() << "ends with " << shown << " instead of " << text;
        return "";
      }
      shown += more;
    }
    return shown.substr(shown.find(text) + text.size());
  }
  int ExitCode() {
    while (!Read().empty()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
};

// A model that never ends its answers, and would need minutes for the longest one.
constexpr char kEndless[] =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":8,)"
    R"("intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":1,)"
    R"("vocab_size":3,"max_position_embeddings":1000000,"rms_norm_eps":1e-5})";

TEST_F(TrainCommandTest, InterruptEndsAnAnswerAndThenTheTalk) {
  WriteBytes(folder_ / "config.json", kEndless);
  WriteBytes(folder_ / "tokenizer.json", kThreeWords);
  WriteBytes(folder_ / "text.bin", std::string(400, '\0'));
  const ProcessResult made = RunSluice(
      Words(absl::StrCat("train --model ", folder_ / "config.json", " --data ",
                         folder_ / "text.bin", " --seq 16 --steps 0 --save ", folder_ / "out")));
  ASSERT_EQ(made.exit_code, kExitDone) << made.err;
  WriteBytes(folder_ / "out/latest/tokenizer.json", kThreeWords);
  WriteBytes(folder_ / "t.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  AtTerminal talk(Words(absl::StrCat("chat --load ", folder_ / "out", " --chat-template ",
                                     folder_ / "t.jinja", " -n 1000000 --context 200000")));
  talk.ReadBehind("> ");
  for (int answers = 0; answers < 2; ++answers) {
    talk.Type("And\n");
    std::string answer = talk.ReadBehind("And\r\n");  // what was typed
    if (answer.empty()) answer = talk.Read();
    EXPECT_NE(answer, "");
    EXPECT_EQ(answer.find_first_not_of("And"), std::string::npos) << answer;
    talk.Type("\x03");
    talk.ReadBehind("\r\n> ");
  }
  talk.Type("\x03");
  EXPECT_EQ(talk.ExitCode(), -SIGINT);
}

}  // namespace
}  // namespace sluice
