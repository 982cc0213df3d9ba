#include "models/device/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Exception>
absl::Status StatusOf(const Exception& exception) {
  return OrExhausted("counting", [&]() -> absl::Status { throw exception; });
}

TEST(OrExhausted, ReturnsWhatTheBodyReturns) {
  EXPECT_TRUE(OrExhausted("counting", [] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(*OrExhausted("counting", [] { return absl::StatusOr<int>(7); }), 7);
}

TEST(OrExhausted, SaysWhatWasDoneAndHowMuchWasWanted) {
  const absl::Status large = StatusOf(OutOfMemory(size_t{3} << 20U));
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.message()),
              AllOf(HasSubstr("out of memory while counting (3.00 MiB more were wanted); "),
                    HasSubstr("ulimit -v")));
  // The last of many small ones says nothing of how much is missing.
  for (const absl::Status& status : {StatusOf(OutOfMemory(24)), StatusOf(std::bad_alloc())}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("out of memory while counting; "), Not(HasSubstr("MiB"))));
  }
}

TEST(OrExhausted, TakesWhatCanHaveNoMemoryForALackOfIt) {
  const absl::Status status = OrExhausted("counting", [] {
    std::vector<int> numbers;
    numbers.reserve(std::numeric_limits<size_t>::max() / 2);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(OrExhausted, KnowsTheErrorsOfThreadsThatCannotBeStarted) {
  for (const absl::Status& status :
       {StatusOf(
            std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
        StatusOf(std::runtime_error("pthread_create has failed: some reason"))}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("no thread could be started while counting"), HasSubstr("ulimit -u")));
  }
}

TEST(OrExhausted, LeavesOtherExceptionsAlone) {
  EXPECT_THROW((void)StatusOf(std::logic_error("a defect")), std::logic_error);
  EXPECT_THROW((void)StatusOf(std::runtime_error("another")), std::runtime_error);
  EXPECT_THROW((void)StatusOf(std::system_error(std::make_error_code(std::errc::not_a_socket))),
               std::system_error);
}

TEST(Threads, AreCountedWhileAllOfThemExist) {
  EXPECT_EQ(StartableThreads(0), 0);
  EXPECT_EQ(StartableThreads(5), 5);
  EXPECT_TRUE(CheckThreads("a test", 3).ok());
  bool ran = false;
  std::thread thread;
  ASSERT_TRUE(StartThread(
                  "starting one", [&ran] { ran = true; }, &thread)
                  .ok());
  thread.join();
  EXPECT_TRUE(ran);
}

TEST(HasAddressSpace, KnowsWhatIsTooMuch) {
  EXPECT_TRUE(HasAddressSpace(1 << 20));
  EXPECT_FALSE(HasAddressSpace(std::numeric_limits<size_t>::max() / 2));
}

}  // namespace
}  // namespace sluice
