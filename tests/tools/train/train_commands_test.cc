// What a program says to `sluice train --commands`: the commands themselves, and data that it makes
// when it is asked, also where it answers nonsense or ends.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "models/spec/bfloat16.h"
#include "models/spec/targets.h"
#include "tools/train/commands/asked_data.h"
#include "tools/train/commands/command_portions.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseRead() { Close(&ends_[0]); }
  void CloseWrite() { Close(&ends_[1]); }

 private:
  static void Close(int* fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  std::array<int, 2> ends_ = {-1, -1};
};

constexpr int kWords = 6;
using Question = std::array<int64_t, kWords>;
// Empty: the program ends.
using Program = std::function<std::optional<std::string>(const Question&)>;

std::string Bytes(const void* data, size_t bytes) {
  return {static_cast<const char*>(data), bytes};
}

// An answer in the protocol's form.
std::string Answer(const std::string& content) {
  const auto size = static_cast<int64_t>(content.size());
  return Bytes(&size, sizeof(size)) + content;
}
std::string Failure(const std::string& words) {
  const int64_t size = -static_cast<int64_t>(words.size());
  return Bytes(&size, sizeof(size)) + words;
}

// Runs a program beside the test.
class Asked {
 public:
  explicit Asked(Program program)
      : thread_([this, program = std::move(program)] {
          Question question;
          while (read(questions_.read_end(), question.data(), sizeof(question)) ==
                 sizeof(question)) {
            const std::optional<std::string> answer = program(question);
            ++asked_;
            if (!answer.has_value()) break;
            EXPECT_EQ(write(answers_.write_end(), answer->data(), answer->size()),
                      static_cast<ssize_t>(answer->size()));
          }
          answers_.CloseWrite();
        }) {}
  ~Asked() {
    questions_.CloseWrite();
    thread_.join();
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  DataChannel channel() const {
    return {.from = answers_.read_end(), .to = questions_.write_end()};
  }
  int asked() const { return asked_; }

 private:
  Pipe questions_, answers_;
  std::atomic<int> asked_ = 0;
  std::thread thread_;
};

constexpr char kPlain[] = R"({"documents": false, "validation": 3})";
constexpr char kDocuments[] = R"({"documents": true, "validation": 0})";
constexpr int64_t kSeq = 4, kSize = 2;
constexpr int kClasses = 100;

int32_t TokenAt(const Question& question, int64_t place) {
  return static_cast<int32_t>((question[1] * 31 + question[2] * 7 + place) % kClasses);
}

// Tokens of a micro-batch, and as targets those after them; `change` spoils or marks some.
std::string Tokens(const Question& question,
                   const std::function<void(std::vector<int32_t>*)>& change = {}) {
  std::vector<int32_t> values;
  for (int64_t place = 0; place < question[3] * question[4]; ++place)
    values.push_back(TokenAt(question, place));
  for (int64_t place = 0; place < question[3] * question[4]; ++place)
    values.push_back(TokenAt(question, place + 1));
  if (change) change(&values);
  return Answer(Bytes(values.data(), values.size() * sizeof(int32_t)));
}

Program TokenProgram(const char* description,
                     const std::function<void(std::vector<int32_t>*)>& change = {}) {
  return [=](const Question& question) -> std::optional<std::string> {
    return question[0] == 0 ? Answer(description) : Tokens(question, change);
  };
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTokens(const Asked& asked) {
  return OpenAskedData(
      {.channel = asked.channel(), .micro_batch_size = kSize, .seq = kSeq, .classes = kClasses});
}

TEST(AskedData, AreWhatTheProgramAnswers) {
  const Asked asked(TokenProgram(kPlain));
  const auto data = OpenTokens(asked);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->samples(Split::kValidation), 3 * kSize);
  EXPECT_FALSE((*data)->has_documents());
  for (const Split split : {Split::kTrain, Split::kValidation}) {
    for (int64_t index = 0; index < 20; ++index) {
      std::vector<int32_t> input(kSize * kSeq), targets(kSize * kSeq), starts(kSize * kSeq, 9);
      (*data)->Fill(split, index, kSize, DType::kInt32,
                    {.input = input.data(), .targets = targets.data(), .starts = starts.data()});
      // Of those to evaluate with there are three, and no others are asked for.
      const Question question = split == Split::kTrain ? Question{1, 0, index, kSize, kSeq, 1}
                                                       : Question{1, 1, index % 3, kSize, kSeq, 1};
      for (size_t place = 0; place < input.size(); ++place) {
        EXPECT_EQ(input[place], TokenAt(question, static_cast<int64_t>(place)));
        EXPECT_EQ(targets[place], TokenAt(question, static_cast<int64_t>(place) + 1));
        EXPECT_EQ(starts[place], 0);
      }
      EXPECT_EQ((*data)->counted_targets(split, index, kSize), kSize * kSeq);
    }
  }
  EXPECT_EQ((*data)->status(), absl::OkStatus());
  EXPECT_THAT((*data)->fingerprint(), HasSubstr("function:4:"));
}

// The ranks of a pipeline want inputs and targets at different times.
TEST(AskedData, AreAskedForOnce) {
  const Asked asked(TokenProgram(kPlain));
  const auto data = OpenTokens(asked);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> values(kSize * kSeq);
  for (const int64_t index : {0, 1, 2, 3}) {
    (*data)->Fill(Split::kTrain, index, kSize, DType::kInt32, {.input = values.data()});
  }
  for (const int64_t index : {0, 1, 2, 3}) {
    (*data)->Fill(Split::kTrain, index, kSize, DType::kInt32, {.targets = values.data()});
  }
  EXPECT_EQ(asked.asked(), 1 + 4);
}

TEST(AskedData, MayHaveTargetsThatDoNotCount) {
  const auto mark = [](std::vector<int32_t>* values) { values->back() = kNoTarget; };
  const Asked asked(TokenProgram(kDocuments, mark));
  const auto data = OpenTokens(asked);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE((*data)->has_documents());
  EXPECT_EQ((*data)->counted_targets(Split::kTrain, 5, kSize), kSize * kSeq - 1);
  EXPECT_EQ((*data)->status(), absl::OkStatus());
}

TEST(AskedData, OfImagesAreRounded) {
  constexpr int64_t kPixels = 3;
  const std::vector<float> pixels = {0.1F, -2.5F, 1e-3F, 7, 0, 1.0F / 3};
  const std::vector<int32_t> labels = {1, 99};
  const Asked asked([&](const Question& question) -> std::optional<std::string> {
    EXPECT_EQ(question[5], 0);
    if (question[0] == 0) return Answer(kPlain);
    return Answer(Bytes(pixels.data(), pixels.size() * sizeof(float)) +
                  Bytes(labels.data(), labels.size() * sizeof(int32_t)));
  });
  const auto data = OpenAskedData({.channel = asked.channel(),
                                   .micro_batch_size = kSize,
                                   .classes = kClasses,
                                   .pixels = kPixels});
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<float> whole(pixels.size());
  std::vector<uint16_t> half(pixels.size());
  std::vector<int32_t> targets(labels.size());
  (*data)->Fill(Split::kTrain, 0, kSize, DType::kFloat32,
                {.input = whole.data(), .targets = targets.data()});
  (*data)->Fill(Split::kTrain, 0, kSize, DType::kBFloat16, {.input = half.data()});
  EXPECT_EQ(whole, pixels);
  EXPECT_EQ(targets, labels);
  for (size_t i = 0; i < pixels.size(); ++i) EXPECT_EQ(half[i], ToBFloat16(pixels[i]));
}

// Each kind of nonsense is an error that names it, zeros instead, and never a value that a kernel
// would read outside its tables with.
TEST(AskedData, ThatAreWrongAreAnErrorAndZeros) {
  const auto set = [](size_t place, int32_t value) {
    return [=](std::vector<int32_t>* values) { (*values)[place] = value; };
  };
  const std::vector<std::pair<Program, std::string>> wrong = {
      {TokenProgram(kPlain, set(3, kClasses)), "input 100; expected 0 to 99"},
      {TokenProgram(kPlain, set(0, -1)), "input -1"},
      {TokenProgram(kDocuments, set(0, kNoTarget)), "input -1"},
      {TokenProgram(kPlain, set(15, kNoTarget)), "target -1"},
      {TokenProgram(kDocuments, set(15, std::numeric_limits<int32_t>::min())), "target -214748"},
      {TokenProgram(kPlain, [](auto* values) { values->pop_back(); }), "60 bytes; expected 64"},
      {[](const Question& question) -> std::optional<std::string> {
         return question[0] == 0 ? Answer(kPlain) : Failure("it is Thursday");
       },
       "it is Thursday"},
      {[](const Question& question) -> std::optional<std::string> {
         const int64_t size = std::numeric_limits<int64_t>::min();
         return question[0] == 0 ? Answer(kPlain) : Bytes(&size, sizeof(size));
       },
       "answered with -9223372036854775808 bytes"},
      {[](const Question& question) -> std::optional<std::string> {
         return question[0] == 0 ? std::make_optional(Answer(kPlain)) : std::nullopt;
       },
       "has ended"},
  };
  for (const auto& [program, words] : wrong) {
    const Asked asked(program);
    const auto data = OpenTokens(asked);
    ASSERT_TRUE(data.ok()) << data.status();
    std::vector<int32_t> input(kSize * kSeq, 5), targets(kSize * kSeq, 5);
    for (const int64_t index : {0, 1}) {
      (*data)->Fill(Split::kTrain, index, kSize, DType::kInt32,
                    {.input = input.data(), .targets = targets.data()});
      EXPECT_THAT(input, testing::Each(0)) << words;
      EXPECT_THAT(targets, testing::Each(0)) << words;
    }
    EXPECT_THAT(std::string((*data)->status().message()), HasSubstr(words));
  }
}

TEST(AskedData, NeedADescription) {
  for (const char* text : {"", "[]", "{", R"({"documents": 1, "validation": 2})",
                           R"({"documents": true, "validation": -2})", R"({"documents": true})",
                           R"({"documents": true, "validation": 1e300})"}) {
    const Asked asked([text](const Question&) { return std::make_optional(Answer(text)); });
    EXPECT_FALSE(OpenTokens(asked).ok()) << text;
  }
  const Asked ended([](const Question&) { return std::nullopt; });
  EXPECT_EQ(OpenTokens(ended).status().code(), absl::StatusCode::kUnavailable);
}

TEST(DataChannel, IsTwoOpenDescriptors) {
  const Pipe pipe;
  const auto channel =
      ParseDataChannel(absl::StrCat("fd:", pipe.read_end(), ",", pipe.write_end()));
  ASSERT_TRUE(channel.ok() && channel->has_value());
  EXPECT_EQ((*channel)->from, pipe.read_end());
  EXPECT_EQ((*channel)->to, pipe.write_end());
  for (const char* path : {"", "text.txt", "f", "FD:1,2", "./fd:1,2"}) {
    const auto none = ParseDataChannel(path);
    ASSERT_TRUE(none.ok()) << path;
    EXPECT_FALSE(none->has_value()) << path;
  }
  for (const char* path : {"fd:", "fd:1", "fd:1,", "fd:1,x", "fd:-1,2", "fd:1,2,3", "fd:1,99999",
                           "fd:99999999999,1"}) {
    EXPECT_FALSE(ParseDataChannel(path).ok()) << path;
  }
}

// What commands are read as, in order; nothing after their end.
std::vector<Portion> Read(const std::string& lines, const TrainOptions& options = {},
                          bool saves = true) {
  Pipe commands;
  EXPECT_EQ(write(commands.write_end(), lines.data(), lines.size()),
            static_cast<ssize_t>(lines.size()));
  commands.CloseWrite();
  CommandPortions portions(
      {.fd = commands.read_end(), .options = &options, .saves = saves, .ended = [](const auto&) {
       }});
  std::vector<Portion> read;
  for (int64_t number = 0; const auto portion = portions.Await(number); ++number) {
    read.push_back(*portion);
    // Every rank that asks later is told the same.
    const auto again = portions.Await(number);
    EXPECT_TRUE(again.has_value() && again->steps == portion->steps &&
                again->saves_to == portion->saves_to);
  }
  EXPECT_FALSE(portions.Await(static_cast<int64_t>(read.size())).has_value());
  return read;
}

TEST(Commands, ArePortions) {
  const fs::path directory = fs::path(testing::TempDir()) / "commands";
  fs::remove_all(directory);
  const std::string save =
      absl::StrCat(R"({"do": "save", "directory": ")", directory.string(), "\"}\n");
  const std::vector<Portion> read =
      Read(absl::StrCat("{\"do\": \"fit\", \"steps\": 3}\n", "{\"do\":\"fit\"}\n",
                        "{\"do\":\"evaluate\"}\n", "{\"do\":\"hash\"}\n", save, save));
  ASSERT_EQ(read.size(), 6U);
  for (const Portion& portion : read) EXPECT_EQ(portion.refused, absl::OkStatus());
  EXPECT_EQ(read[0].steps, 3);
  EXPECT_EQ(read[1].steps, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(read[2].evaluates && !read[2].hashes && read[2].steps == 0);
  EXPECT_TRUE(read[3].hashes && !read[3].evaluates);
  EXPECT_EQ(read[4].saves_to, directory.string());
  EXPECT_EQ(read[5].saves_to, directory.string());
  EXPECT_TRUE(fs::is_directory(directory));
  fs::remove_all(directory);
  // Only rank 0's process makes it.
  EXPECT_EQ(Read(save, {}, /*saves=*/false)[0].refused, absl::OkStatus());
  EXPECT_FALSE(fs::exists(directory));
}

TEST(Commands, DoNotReplaceTheModelThatAnAdapterIsFor) {
  const fs::path directory = fs::path(testing::TempDir()) / "base";
  const fs::path step = directory / "step-00000006";
  fs::remove_all(directory);
  fs::create_directories(step);
  std::ofstream(step / "state.json") << "{\n  \"format\": \"sluice checkpoint 1\"";
  TrainOptions options;
  options.saving.init = step;
  const std::string save = absl::StrCat(R"({"do": "save", "overwrite": true, "directory": ")",
                                        directory.string(), "\"}\n");
  EXPECT_EQ(Read(save, options)[0].refused, absl::OkStatus()) << "a whole model replaces another";
  options.saving.saves_adapter = true;
  EXPECT_THAT(Read(save, options)[0].refused.message(), HasSubstr(step.string()));
  fs::remove_all(directory);
}

TEST(Commands, ThatAreWrongAreRefused) {
  for (const char* line :
       {"", "fit", "[]", R"({"do": "fit", "do": "hash"})", "{}", R"({"do": 3})", R"({"do": "fly"})",
        R"({"do": "fit", "steps": -1})", R"({"do": "fit", "steps": 1.5})",
        R"({"do": "fit", "steps": 9223372036854775808})", R"({"do": "fit", "step": 1})",
        R"({"do": "evaluate", "steps": 1})", R"({"do": "stop", "steps": 1})", R"({"do": "save"})",
        R"({"do": "save", "directory": ""})", R"({"do": "save", "directory": 1})",
        R"({"do": "save", "directory": "x", "overwrite": 1})",
        R"({"do": "save", "directory": "/proc/nowhere"})"}) {
    const std::vector<Portion> read =
        Read(absl::StrCat(line, "\n{\"do\": \"fit\", \"steps\": 2}\n"));
    ASSERT_EQ(read.size(), 2U) << line;
    EXPECT_FALSE(read[0].refused.ok()) << line;
    EXPECT_EQ(read[1].steps, 2) << line;
  }
}

TEST(Commands, AStopIsForTheOneBeforeIt) {
  Pipe commands;
  const auto say = [&](const std::string& text) {
    ASSERT_EQ(write(commands.write_end(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  };
  const std::string stop = "{\"do\": \"stop\"}\n";
  const TrainOptions options;
  CommandPortions portions({.fd = commands.read_end(), .options = &options, .ended = {}});
  const auto steps = [&](int64_t number) {
    const std::optional<Portion> portion = portions.Await(number);
    return portion.has_value() ? portion->steps : -1;
  };

  say(absl::StrCat(stop, R"({"do": "fit", "steps": 10})", "\n"));
  EXPECT_EQ(steps(0), 10);
  EXPECT_FALSE(portions.EndsEarly());
  say(stop.substr(0, 5));
  EXPECT_FALSE(portions.EndsEarly());
  say(stop.substr(5));
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(portions.EndsEarly());
  EXPECT_EQ(steps(0), 10);
  EXPECT_TRUE(portions.EndsEarly());

  // Two came when it had ended, and one is meant for what comes after the next one.
  say(absl::StrCat(stop, stop, R"({"do": "fit", "steps": 11})", "\n",
                   R"({"do": "fit", "steps": 12})", "\n", stop));
  EXPECT_EQ(steps(1), 11);
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(portions.EndsEarly());
  EXPECT_EQ(steps(2), 12);
  EXPECT_TRUE(portions.EndsEarly());

  // The end of the commands is none.
  say(R"({"do": "fit", "steps": 13})"
      "\n");
  EXPECT_EQ(steps(3), 13);
  commands.CloseWrite();
  EXPECT_FALSE(portions.EndsEarly());
  EXPECT_FALSE(portions.EndsEarly());
  EXPECT_EQ(steps(4), -1);
}

TEST(Commands, WithoutALineEndAreNone) {
  EXPECT_TRUE(Read("").empty());
  EXPECT_TRUE(Read("{\"do\": \"fit\"}").empty());
}

}  // namespace
}  // namespace sluice
