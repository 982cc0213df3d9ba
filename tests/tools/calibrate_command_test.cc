// `sluice calibrate`: what it prints, what it writes, and how it refuses what makes no sense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "partitioner/costs/cluster.h"
#include "tests/tools/sluice_process.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr char kTable[] =
    "params_b,global_batch,micro_batch,hidden,heads,layers,seq_len,tp,dp,pp,iteration_s\n"
    "small,64,2,2048,16,24,1024,2,4,2,0.7\n"
    "small,64,4,2048,16,24,1024,1,8,1,0.6\n"
    "large,64,1,8192,64,24,1024,8,1,2,9\n";

class CalibrateTest : public ::testing::Test {
 protected:
  std::string Write(const char* name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  static ProcessResult Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "calibrate");
    return RunSluice(arguments);
  }
  TempFolder folder_;
};

TEST_F(CalibrateTest, FitsPrintsAndWritesACluster) {
  const std::string table = Write("t.csv", kTable), cluster = folder_ / "cluster.json";
  const ProcessResult result = Run({table, "-o", cluster, "--check", table});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("product_efficiency"));
  EXPECT_THAT(result.out, HasSubstr("over 3 steps, fitted to all of them"));
  EXPECT_THAT(result.out, HasSubstr("each of the 2 models is predicted from the others"));
  EXPECT_THAT(result.out, HasSubstr("over 3 steps that nothing was fitted to"));
  std::stringstream text;
  text << std::ifstream(cluster).rdbuf();
  const absl::StatusOr<ClusterSpec> written = ParseCluster(text.str(), cluster);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_LT(written->devices[0].product_efficiency, 1);
  EXPECT_LT(written->inside.bandwidth, 300e9);
}

TEST_F(CalibrateTest, PrintsJson) {
  const ProcessResult result = Run({Write("t.csv", kTable), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["constants"].size(), 7);
  EXPECT_EQ(json["steps"].size(), 3);
  EXPECT_EQ(json["steps"][1]["line"], 3);
  EXPECT_GT(json["steps"][1]["left_out_seconds"].get<double>(), 0);
  EXPECT_GT(json["left_out_error"].get<double>(), 0);
}

TEST_F(CalibrateTest, RefusesWithFileLineAndColumn) {
  const std::string good = Write("t.csv", kTable);
  const auto refused = [](const ProcessResult& result, const char* says) {
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(says));
  };
  std::string bad = kTable;
  bad.replace(bad.find("2048"), 4, "many");
  refused(Run({Write("bad.csv", bad)}), "bad.csv: line 2, column hidden: 'many'");
  refused(Run({folder_ / "none.csv"}), "none.csv");
  refused(Run({good, "--device", "abacus"}), "no device 'abacus'");
  refused(Run({good, "--cluster", Write("c.json", "{}")}), "c.json: field 'name' is missing");
  refused(Run({good, "--cluster", good, "--device", "a100"}), "--device");
  refused(Run({good, "--check", folder_ / "none.csv"}), "none.csv");
  refused(Run({}), "TABLE");
}

}  // namespace
}  // namespace sluice
