// Files that have no end, no writer or far too many bytes, wherever one is read as a whole: refused
// at once, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr double kSeconds = 20;  // a sanitizer's build on a busy machine; usually 0.1

// Commands that read @.json, @.txt or @.csv, which are links to one file, or @ itself.
std::vector<std::string> Readers(const TempFolder& at) {
  const std::string train = absl::StrCat("train --data ", at / "text", " ");
  const std::string schedule = "schedule show 1f1b -p 2 -m 2 ";
  return {"plan @.json --devices 2 --device h200",
          "plan @.txt --devices 2",
          "plan gpt2 --devices 2 --device @.json",
          "plan gpt2 --devices 2 --cluster @.json",
          "calibrate @.csv",
          "schedule show @.csv",
          "schedule check @.csv",
          schedule + "--costs @.json",
          schedule + "--format html --measured @.json",
          train + "--plan @.json",
          train + "--schedule @.csv",
          train + "--model @.json",
          train + "--tokenizer @",
          train + "--init @",
          train + "--validation @",
          absl::StrCat("train --data @ ", WithTinyRun("")),
          train + WithTinyRun("--rank 0 --world-size 2 --master-addr localhost --master-port 1 "
                              "--secret-file @"),
          "tokenize --tokenizer @ --data /dev/null"};
}

class InputFileTest : public testing::Test {
 protected:
  InputFileTest() { WriteText(folder_ / "text"); }

  // That each command names the file that `name` is, and says `why`.
  void ExpectRefused(const std::string& name, const std::string& why) const {
    const std::string file = folder_ / name;
    for (const char* ending : {".json", ".txt", ".csv"}) {
      std::filesystem::create_symlink(file, file + ending);
    }
    for (const std::string& reader : Readers(folder_)) {
      const ProcessResult result = RunSluice(Words(absl::StrReplaceAll(reader, {{"@", file}})));
      EXPECT_EQ(result.exit_code, kExitBadInput) << reader << "\n" << result.err;
      EXPECT_LT(result.seconds, kSeconds) << reader;
      EXPECT_THAT(result.err, HasSubstr(file)) << reader;
      EXPECT_THAT(result.err, HasSubstr(why)) << reader;
    }
  }

  TempFolder folder_;
};

TEST_F(InputFileTest, APipeThatNobodyWritesTo) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  ExpectRefused("pipe", "file");
}

TEST_F(InputFileTest, ADeviceWithoutAnEnd) {
  std::filesystem::create_symlink("/dev/zero", folder_ / "zero");
  ExpectRefused("zero", "file");
}

TEST_F(InputFileTest, ASocket) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ / "socket";
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ExpectRefused("socket", "");
  close(fd);
}

// A tebibyte that takes no room on the disk: what is read as a whole is refused by its size.
TEST_F(InputFileTest, AFileThatIsFarTooLong) {
  const std::string file = folder_ / "long.json";
  WriteBytes(file, "{");
  std::error_code error;
  std::filesystem::resize_file(file, uintmax_t{1} << 40, error);
  if (error) GTEST_SKIP() << "no sparse files here: " << error.message();
  for (const std::string& command :
       {"plan " + file + " --devices 2 --device h200", "plan gpt2 --devices 2 --device " + file,
        "schedule show 1f1b -p 2 -m 2 --costs " + file}) {
    const ProcessResult result = RunSluice(Words(command));
    EXPECT_EQ(result.exit_code, kExitBadInput) << command;
    EXPECT_THAT(result.err, HasSubstr(file + " has 1099511627776 bytes")) << command;
    EXPECT_THAT(result.err, HasSubstr("expected a file of at most 67108864 bytes")) << command;
  }
}

// A secret is short: what is longer is another file, given by mistake.
TEST_F(InputFileTest, ASecretOfManyBytes) {
  WriteBytes(folder_ / "secret", std::string(100'000, 's'));
  const ProcessResult result = RunSluice(Words(absl::StrCat(
      "train --data ", folder_ / "text", " ",
      WithTinyRun(absl::StrCat("--rank 0 --world-size 2 --master-addr localhost --master-port 1 "
                               "--secret-file ",
                               folder_ / "secret")))));
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_THAT(result.err, HasSubstr("secret has 100000 bytes"));
  EXPECT_THAT(result.err, HasSubstr("at most 65536 bytes"));
}

}  // namespace
}  // namespace sluice
