#include "tools/text_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kMoreThanAPipeHolds = size_t{1} << 20;

class TextWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2] = {};
    ASSERT_EQ(pipe(ends), 0);
    from_ = ends[0];
    to_ = ends[1];
  }
  void TearDown() override {
    for (const int end : {from_, to_}) {
      if (end >= 0) close(end);
    }
  }

  std::string Read(size_t bytes) const {
    std::string text(bytes, '\0');
    size_t at = 0;
    while (at < bytes) {
      const ssize_t got = read(from_, text.data() + at, bytes - at);
      if (got <= 0) break;
      at += static_cast<size_t>(got);
    }
    text.resize(at);
    return text;
  }

  int from_ = -1;
  int to_ = -1;
};

TEST_F(TextWriterTest, WritesInOrderWhatAReaderThatPausesTakesLater) {
  TextWriter writer(to_);
  std::string all;
  for (int line = 0; all.size() < kMoreThanAPipeHolds; ++line) {
    const std::string text = absl::StrCat("line ", line, "\n");
    all += text;
    writer.Write(text);  // would hang here if it waited for the reader
  }
  EXPECT_EQ(Read(all.size()), all);
  EXPECT_TRUE(writer.Finish().ok());
}

TEST_F(TextWriterTest, DoesNotWaitForEverForAReaderAtTheEnd) {
  {
    TextWriter writer(to_);
    writer.Write(std::string(kMoreThanAPipeHolds, 'x'));
    EXPECT_TRUE(writer.Finish(absl::Milliseconds(1)).ok());
    EXPECT_TRUE(writer.Finish().ok()) << "it has given up";
  }
  Read(kMoreThanAPipeHolds);  // the writer's thread goes on and ends
}

TEST_F(TextWriterTest, LeavesOutTextThatNewerTextReplaces) {
  TextWriter writer(to_);
  const std::string first(kMoreThanAPipeHolds, 'x');
  writer.Write(first);  // keeps the thread busy until somebody reads
  for (int percent = 0; percent < 100; ++percent)
    writer.WriteTo(to_, absl::StrCat("[", percent, "]"), /*replaceable=*/true);
  writer.Write("end");
  EXPECT_EQ(Read(first.size()), first);
  EXPECT_TRUE(writer.Finish().ok());
  close(to_);
  to_ = -1;
  EXPECT_EQ(Read(100), "[99]end");
}

TEST_F(TextWriterTest, SaysOnceThatTheReaderIsGone) {
  close(from_);
  from_ = -1;
  std::atomic<int> failures{0};
  std::atomic<int> error{0};
  TextWriter writer(to_, [&](int failure) {
    ++failures;
    error = failure;
  });
  writer.Write("one");
  writer.Write("two");
  const absl::Status status = writer.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "standard output: cannot write: Broken pipe");
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(error, EPIPE);
}

TEST_F(TextWriterTest, SaysThatTheDiskIsFull) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  {
    TextWriter writer(full);
    writer.Write("lost");
    EXPECT_EQ(writer.Finish().message(), "standard output: cannot write: No space left on device");
    EXPECT_FALSE(writer.Finish().ok()) << "also when it is asked again";
  }
  close(full);
}

TEST_F(TextWriterTest, WaitsForATerminalThatSomebodyMadeNonBlocking) {
  fcntl(to_, F_SETFL, O_NONBLOCK);
  TextWriter writer(to_);
  const std::string text(kMoreThanAPipeHolds, 'x');
  writer.Write(text);
  EXPECT_EQ(Read(text.size()), text);
  EXPECT_TRUE(writer.Finish().ok());
}

// Another process prints the frames; once it is gone, the writer prints itself, also what that one
// has not taken.
TEST_F(TextWriterTest, HandsOverFramesWhileSomebodyTakesThem) {
  int relay[2] = {};
  ASSERT_EQ(pipe(relay), 0);
  TextWriter writer(to_, {}, relay[1]);
  writer.Write("head\n");
  writer.SetMark({.step = 7, .unless_shown = true});
  writer.Write("seven\n");
  writer.Tell({.step = 7, .loss = 2.5F});
  writer.Tell({.exit_code = 3});
  writer.Write("again\n");
  const std::string frames =
      FormatFrame({}, "head\n") + FormatFrame({.step = 7, .unless_shown = true}, "seven\n") +
      FormatFrame({.step = 7, .loss = 2.5F}, "") + FormatFrame({.exit_code = 3}, "") +
      FormatFrame({.step = 7, .unless_shown = true}, "again\n");
  std::string read(frames.size(), '\0');
  for (size_t at = 0; at < read.size();) {
    const ssize_t got = ::read(relay[0], read.data() + at, read.size() - at);
    ASSERT_GT(got, 0);
    at += static_cast<size_t>(got);
  }
  EXPECT_EQ(read, frames);
  close(relay[0]);
  writer.Write("eight\n");
  writer.Write("nine\n");
  EXPECT_TRUE(writer.Finish().ok());
  EXPECT_EQ(Read(11), "eight\nnine\n");
  close(relay[1]);
}

TEST(FrameReaderTest, FindsFramesInPiecesAndLeavesOutWhatIsNotWhole) {
  const std::string bytes = FormatFrame({.step = 3}, "three\n") +
                            FormatFrame({.step = 4, .loss = 0.5F}, "") +
                            FormatFrame({.step = 5, .unless_shown = true}, "five\n");
  for (const size_t piece : {size_t{1}, size_t{5}, size_t{31}, bytes.size()}) {
    FrameReader reader;
    std::string found;
    const std::string most = bytes.substr(0, bytes.size() - 1);
    for (size_t at = 0; at < most.size(); at += piece) {
      reader.Add(absl::string_view(most).substr(at, piece));
      while (const std::optional<OutputFrame> frame = reader.Next()) {
        absl::StrAppend(&found, frame->mark.step, frame->mark.unless_shown ? "?" : "", ":",
                        frame->text);
        if (frame->mark.loss) absl::StrAppend(&found, "loss ", *frame->mark.loss);
      }
    }
    EXPECT_EQ(found, "3:three\n4:loss 0.5") << piece;
    reader.Add("\n");
    const std::optional<OutputFrame> last = reader.Next();
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->text, "five\n");
    EXPECT_TRUE(last->mark.unless_shown);
    EXPECT_FALSE(last->mark.loss.has_value());
    EXPECT_FALSE(reader.Next().has_value());
  }
}

TEST(ShownStepsTest, ABroughtStepIsShownWhereItWasNot) {
  ShownSteps shown;
  EXPECT_TRUE(shown.Take({}));
  EXPECT_TRUE(shown.Take({.step = 1}));
  EXPECT_TRUE(shown.Take({.step = 1}));                         // its evaluation
  EXPECT_FALSE(shown.Take({.step = 1, .unless_shown = true}));  // was shown
  EXPECT_TRUE(shown.Take({.step = 2, .unless_shown = true}));   // was not
  EXPECT_FALSE(shown.Take({.step = 2, .unless_shown = true}));
  EXPECT_TRUE(shown.Take({.step = 1}));  // taken again, from a checkpoint
}

TEST(ShownStepsTest, WhatWasWrongIsShownAgain) {
  ShownSteps shown;
  EXPECT_TRUE(shown.Take({.step = 7}));
  EXPECT_TRUE(shown.Take({.step = 4, .rewinds = true}));
  EXPECT_FALSE(shown.Take({.step = 4, .unless_shown = true}));
  EXPECT_TRUE(shown.Take({.step = 5, .unless_shown = true}));
  EXPECT_FALSE(shown.Take({.step = 5, .unless_shown = true}));
  // Of a step that was not shown before, either.
  EXPECT_TRUE(shown.Take({.step = 6, .rewinds = true}));
  EXPECT_TRUE(shown.Take({.step = 6, .unless_shown = true}));
}

TEST(ShownStepsTest, AFrameSaysSo) {
  FrameReader reader;
  reader.Add(FormatFrame({.step = 4, .rewinds = true}, "wrong"));
  const std::optional<OutputFrame> frame = reader.Next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_TRUE(frame->mark.rewinds);
  EXPECT_FALSE(frame->mark.unless_shown);
  EXPECT_EQ(frame->mark.exit_code, std::nullopt);
  EXPECT_EQ(frame->mark.step, 4);
}

TEST(ShownStepsTest, AFrameSaysThatItIsTheSummary) {
  FrameReader reader;
  reader.Add(FormatFrame({.exit_code = 0}, "done"));
  const std::optional<OutputFrame> frame = reader.Next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->mark.exit_code, 0);
  EXPECT_FALSE(frame->mark.rewinds);
}

}  // namespace
}  // namespace sluice
