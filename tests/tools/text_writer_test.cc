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

}  // namespace
}  // namespace sluice
