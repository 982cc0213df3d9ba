// `sluice schedule` run as a script runs it: what it prints and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/built_files.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Outcome {
  int exit_code;
  std::string out;
  std::string err;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ScheduleCommand : public testing::Test {
 protected:
  ScheduleCommand() : folder_(testing::TempDir() + "sluice_schedule_XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ScheduleCommand() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  Outcome Run(const std::string& arguments, int columns = 80) const {
    const std::string command = "COLUMNS=" + std::to_string(columns) + " " + SluiceProgram() +
                                " schedule " + arguments + " 2>" + Path("err");
    std::FILE* pipe = popen(command.c_str(), "r");
    Outcome outcome{-1, "", ""};
    std::array<char, 4096> block;
    while (const size_t count = std::fread(block.data(), 1, block.size(), pipe))
      outcome.out.append(block.data(), count);
    const int status = pclose(pipe);
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    outcome.err = Contents(Path("err"));
    return outcome;
  }

  void ExpectBadInput(const std::string& arguments, const std::string& message) const {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << arguments;
  }

  std::string folder_;
};

// A rank of Chimera has two stages too, but does the work of one.
TEST_F(ScheduleCommand, ComparisonSaysWhatChunksCost) {
  const std::string chunks = "with v chunks a rank does v times the work\n";
  const std::string copies = "two copies of the model (chimera)";
  EXPECT_THAT(Run("compare 1f1b chimera -p 4 -m 8").out,
              AllOf(HasSubstr(copies), Not(HasSubstr(chunks))));
  EXPECT_THAT(Run("compare 1f1b zbv -p 4 -m 8").out,
              AllOf(HasSubstr(chunks), Not(HasSubstr(copies))));
  EXPECT_THAT(Run("compare 1f1b -p 4 -m 8").out,
              AllOf(Not(HasSubstr(chunks)), Not(HasSubstr(copies))));
  // Where stages may be cut, a rank does the work of one.
  EXPECT_THAT(Run("compare 1f1b auto -p 4 -m 8 --chunks auto").out,
              AllOf(HasSubstr("\nauto          /4 "), HasSubstr("\n/v: the stage of a rank is cut"),
                    Not(HasSubstr(chunks))));
}

TEST_F(ScheduleCommand, RefusesBadInput) {
  ExpectBadInput("list 1f2b", "did you mean '1f1b'?");
  ExpectBadInput("list table.csv", "no schedule 'table.csv'; there are: ");
  for (const char* mistyped : {"list atuo", "show atuo -p 4 -m 8", "compare 1f1b atuo -p 4 -m 8"})
    ExpectBadInput(mistyped, "no schedule 'atuo'; did you mean 'auto'? there are: auto, ");
  ExpectBadInput("show 1f1b -p 0 -m 8", "ranks must be at least 1, not 0");
  ExpectBadInput("show 1f1b -p 4 -m 0", "micro-batches must be at least 1, not 0");
  ExpectBadInput("show 1f1b -p 4 -m -3", "micro-batches must be at least 1, not -3");
  ExpectBadInput("show 1f1b -p four -m 8", "--ranks");
  ExpectBadInput("show 1f1b -m 8", "needs -p/--ranks");
  ExpectBadInput("show 1f2b -p 4 -m 8", "did you mean '1f1b'?");
  ExpectBadInput("show chimera -p 3 -m 8", "needs an even number of ranks, not 3");
  ExpectBadInput("show 1f1b -p 4 -m 8 --update-every 4", "leave --update-every out");
  ExpectBadInput("show pipedream-2bw -p 4 -m 8 --update-every 2",
                 "an update for every 3 or more micro-batches on 4 ranks, not every 2");
  ExpectBadInput("show auto -p 4", "needs -p/--ranks and -m/--micro-batches");
  ExpectBadInput("show auto -p 4 -m 8 --time-limit 1parsec", "--time-limit");
  ExpectBadInput("show 1f1b -p 4 -m 8 --cost F=-1", "--cost: F is '-1'");
  ExpectBadInput("show 1f1b -p 4 -m 8 --cost W=nan", "--cost: W is 'nan'");
  ExpectBadInput("show 1f1b -p 4 -m 8 --cost F=1,G=2", "'G' is not a cost");
  ExpectBadInput("show 1f1b -p 4 -m 8 --cost B=1,I=2", "cost W[0] is -1");
  ExpectBadInput("show 1f1b -p 4 -m 8 -v 2", "needs one chunk per rank");
  ExpectBadInput("show 1f1b -p 4 -m 8 --group 4", "has no groups");
  ExpectBadInput("show 1f1b -p 4 -m 8 --format no", "--format");
  ExpectBadInput("show 1f1b -p 4 -m 8 -o " + Path("no/where.svg"), "where.svg: cannot write");
  ExpectBadInput("show interleaved -p 4 -m 8 --placement v",
                 "places its stages itself, not as --placement v says");
  ExpectBadInput("show " + Path("absent.csv"), "absent.csv: No such file");
  ExpectBadInput("check " + folder_, "is a directory; expected a file");
  ExpectBadInput("check " + Write("bad.csv", "0F0,0B0\n1F0,1X0\n"),
                 "bad.csv: line 2, column 5 (cell 2): '1X0' is not an action");
  ExpectBadInput("check " + Write("quoted.csv", "\"0F0,0B0\n"),
                 "quoted.csv: line 1, column 1 (cell 1): '\"0F0' is not an action");
  ExpectBadInput("check " + Write("marked.csv", "0F0,\xEF\xBB\xBF\n"),
                 "'\\xef\\xbb\\xbf' is not an action");
  ExpectBadInput("compare 1f1b nonsense -p 4 -m 8", "no schedule 'nonsense'");
  ExpectBadInput("compare -p 4", "needs -p/--ranks and -m/--micro-batches");
  ExpectBadInput("", "'sluice schedule' needs a command; there are: list, show, ");
}

TEST_F(ScheduleCommand, RefusesBadCostFiles) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "costs.json: line 1, column 2: not valid JSON"},
      {"[]", "costs.json: line 1, column 1: expected an object"},
      {R"({"F":[1,2,3]})", "costs.json: line 1, column 6: F has 3 values, expected 2"},
      {"{\"F\":\n [1,\n   -2]}", "costs.json: line 3, column 4: F[1] is -2; it must be a finite"},
      {R"({"F":[1,1e999]})", "costs.json: line 1, column 9: not valid JSON: number overflow"},
      {R"({"F":[1,NaN]})", "costs.json: line 1, column 9: not valid JSON"},
      {R"({"F":[1,"x"]})", "costs.json: line 1, column 9: F[1] is a string, not a number"},
      {R"({"F":{"a":1}})", "line 1, column 6: F is an object; expected a list of 2 numbers"},
      {R"({"send":[1,2]})", "costs.json: line 1, column 9: send has 2 values, expected 1"},
      {R"({"send":-1})", "line 1, column 9: send is -1; it must be"},
      {R"({"W":[1,1],"B":[2,0.5]})", "cost I[1] is -0.5"},
      {R"({"I":[1,1],"I":[2,2]})", "costs.json: line 1, column 12: field \"I\" is given twice"},
      {R"({"G":[1,2]})", "costs.json: line 1, column 6: 'G' is not a field"},
      {R"({"bandwidth":0,"send_bytes":1})", "column 14: bandwidth is 0; it must be"},
      {R"({"send_bytes":1})", "column 15: send_bytes is given without bandwidth"},
      {R"({"rank_speed":[1,0]})", "column 18: rank_speed[1] is 0"},
      {R"({"rank_speed":[1,2],"overlap":1})", "cannot be given together"},
      {R"({"device_memory":[1]})", "line 1, column 18: device_memory has 1 values, expected 2"},
  };
  for (const auto& [text, message] : cases) {
    ExpectBadInput("show 1f1b -p 2 -m 4 --costs " + Write("costs.json", text), message);
  }
}

// No gap can be told from a bound of 0.
TEST_F(ScheduleCommand, AGapIsOfABoundAboveZero) {
  const std::string free_pairs = "show dualpipev -p 2 -m 4 --cost overlap=0 ";
  const json report = json::parse(Run(free_pairs + "--json").out);
  EXPECT_EQ(report["lower_bound"], 9);
  EXPECT_EQ(report["gap"], 1.0);
  const std::string only_pairs = "dualpipev -p 2 -m 4 --cost F=0,B=0,overlap=1 ";
  const json none = json::parse(Run("show " + only_pairs + "--json").out);
  EXPECT_EQ(none["lower_bound"], 0);
  EXPECT_EQ(none["gap"], nullptr);
  EXPECT_THAT(Run("show " + only_pairs).out, HasSubstr("bound 0  gap unknown\n"));
  EXPECT_THAT(Run("compare " + only_pairs).out, HasSubstr("unknown"));
}

// Flags are checked also where the answer does not need their values.
TEST_F(ScheduleCommand, ReadsEveryFlagOnce) {
  ExpectBadInput("show 1f1b -p 4 -m 8 --format csv --cost X=1", "--cost: 'X' is not a cost");
  ExpectBadInput("show 1f1b -p 4 -m 8 --time-limit soon", "--time-limit: ");
  ExpectBadInput("show nothing -p 4 -m 8 --costs " + Path("none.json"), "none.json");
}

TEST_F(ScheduleCommand, RebuildsActivations) {
  const std::string show = "show 1f1b -p 4 -m 8 --json --recompute ";
  EXPECT_EQ(json::parse(Run(show + "--cost F=1,B=2").out)["makespan"], 39);
  EXPECT_EQ(json::parse(Run(show + "--cost F=1,B=2,RECOMPUTE=0").out)["makespan"], 33);
  const std::string path = Write("costs.json", R"({"F":[1,1,1,1],"RECOMPUTE":[1,1,0.5,0]})");
  EXPECT_EQ(json::parse(Run(show + "--costs " + path).out)["work"], json({32, 32, 28, 24}));
  const Outcome dealt = Run("show 1f1b -m 12 --stage-replicas 3,1 --recompute --json --actions");
  EXPECT_THAT(dealt.out, HasSubstr("RECOMPUTE"));
  ExpectBadInput("show auto -p 2 -m 4 --recompute", "schedule auto rebuilds nothing");
}

TEST_F(ScheduleCommand, ReadsCostFiles) {
  const std::string path = Write("costs.json", R"({"F":[1,2],"I":[2,1],"W":[1,1],"send":0.5,
      "activation_bytes":[100,200],"weight_grad_bytes":[10,20],"device_memory":[150,1000]})");
  const Outcome outcome = Run("show 1f1b -p 2 -m 4 --json --costs " + path);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report["work"], json({16.0, 16.0}));
  EXPECT_EQ(report["peak_bytes"], json({200.0, 200.0}));
  EXPECT_THAT(
      outcome.err,
      HasSubstr("warning: rank 0 holds up to 200 bytes of activations; its device has 150"));
}

TEST_F(ScheduleCommand, CostFilesKnowLinksAndSpeeds) {
  // Rank 1 is twice as fast. A message takes 1 + 6 / 2, of which it holds its link for 3.
  const std::string path =
      Write("costs.json", R"({"F":[1,2],"I":[1,2],"W":[1,2],"send":1,"send_bytes":6,"bandwidth":[2],
      "rank_speed":[1,2]})");
  const json report = json::parse(Run("show gpipe -p 2 -m 2 --json --costs " + path).out);
  // F0 ends at 1, arrives at 5; F1 at 8. Rank 1: F 5-6, 8-9, B 9-11, 11-13. Gradients are back at
  // 15 and 18, where the last B takes 2.
  EXPECT_EQ(report["makespan"], 20);
  EXPECT_EQ(report["work"], json({6.0, 6.0}));
  EXPECT_EQ(report["utilisation"], json({0.3, 0.3}));
  std::vector<std::string> why;
  for (const json& step : report["critical_path"]) why.push_back(step["why"]);
  EXPECT_EQ(why, (std::vector<std::string>{"start", "link", "rank", "link"}));
}

TEST_F(ScheduleCommand, JsonHasThePromisedFields) {
  const json report = json::parse(Run("show 1f1b -p 4 -m 8 --cost F=1,B=2 --json --actions").out);
  EXPECT_EQ(report["schedule"], "1f1b");
  EXPECT_EQ(report["ranks"], 4);
  EXPECT_EQ(report["stages"], 4);
  EXPECT_EQ(report["chunks"], 1);
  EXPECT_EQ(report["micro_batches"], 8);
  EXPECT_EQ(report["makespan"], 33);
  EXPECT_DOUBLE_EQ(report["bubble"], 3.0 / 11);
  EXPECT_EQ(report["span"], 33);
  EXPECT_DOUBLE_EQ(report["span_bubble"], 3.0 / 11);
  EXPECT_EQ(report["lower_bound"], 27);
  EXPECT_DOUBLE_EQ(report["gap"], 33.0 / 27 - 1);
  EXPECT_EQ(report["peak_activations"], json({4, 3, 2, 1}));
  EXPECT_EQ(report["work"], json({24.0, 24.0, 24.0, 24.0}));
  EXPECT_EQ(report["critical_path"].back()["end"], 33);
  ASSERT_EQ(report["rank_actions"].size(), 4u);
  EXPECT_EQ(report["rank_actions"][3][1],
            (json{{"op", "B"}, {"stage", 3}, {"micro_batch", 0}, {"start", 4.0}, {"end", 6.0}}));
  EXPECT_FALSE(json::parse(Run("show 1f1b -p 4 -m 8 --json").out).contains("rank_actions"));
}

TEST_F(ScheduleCommand, CostsFollowTheirRules) {
  const auto makespan = [&](const std::string& cost) {
    return json::parse(Run("show zb-h1 -p 1 -m 1 --json --cost " + cost).out)["makespan"]
        .get<double>();
  };
  EXPECT_EQ(makespan("F=1"), 3);          // I = W = 1
  EXPECT_EQ(makespan("F=0,B=5"), 5);      // I = W = B / 2
  EXPECT_EQ(makespan("F=0,I=3,W=4"), 7);  // both as given
  EXPECT_EQ(makespan("F=0,B=5,I=4"), 5);  // W is the rest
}

TEST_F(ScheduleCommand, ListsEveryDefectOfAnUnsoundTable) {
  const std::string path = Write("unsound.csv", "0F0,0B1,0F1,0B0\n1F0,1B0,1F1\n");
  const Outcome check = Run("check " + path);
  EXPECT_EQ(check.exit_code, 4);
  EXPECT_THAT(check.out, HasSubstr("rank 0, position 2, 0F1: comes after 0B1 (position 1)"));
  EXPECT_THAT(check.out, HasSubstr("rank 0, position 3, 0B0: adds to the weight gradient"));
  EXPECT_THAT(check.out, HasSubstr("rank 1, 1B1: is absent"));
  EXPECT_THAT(check.err, HasSubstr("3 defects"));
  const json report = json::parse(Run("check --json " + path).out);
  EXPECT_EQ(report["sound"], false);
  EXPECT_EQ(report["defects"].size(), 3u);
  const Outcome show = Run("show " + path);
  EXPECT_EQ(show.exit_code, 4);
  EXPECT_EQ(show.out, "");
  EXPECT_THAT(show.err, AllOf(HasSubstr("is not sound: rank 0, position 2, 0F1: comes after 0B1"),
                              HasSubstr("; rank 1, 1B1: is absent")));
}

TEST_F(ScheduleCommand, ExportsWhatItCanReadAgain) {
  for (const char* format : {"csv", "comms-csv"}) {
    const std::string path = Path("table.csv");
    EXPECT_EQ(Run(std::string("show interleaved -p 3 -m 6 -v 2 -o ") + path + " --format " + format)
                  .exit_code,
              0);
    const Outcome check = Run("check " + path);
    EXPECT_EQ(check.exit_code, 0) << check.err;
    EXPECT_THAT(check.out, HasSubstr("sound (3 ranks, 6 stages, 6 micro-batches"));
    EXPECT_EQ(Run("show " + path + " --format " + format).out, Contents(path));
  }
}

TEST_F(ScheduleCommand, WritesForThePyTorchThatIsAsked) {
  const std::string newer = Run("show zbv -p 2 -m 4 --format comms-csv").out;
  EXPECT_EQ(Run("show zbv -p 2 -m 4 --format comms-csv --torch 2.15").out, newer);
  EXPECT_THAT(newer, HasSubstr(",0REDUCE_GRAD,0WAIT_REDUCE_GRAD,"));
  EXPECT_THAT(newer, HasSubstr("WAIT_SEND_F0"));
  EXPECT_THAT(newer, Not(HasSubstr("UNSHARD")));
  const std::string older = Run("show zbv -p 2 -m 4 --format comms-csv --torch 2.8").out;
  EXPECT_THAT(older, Not(HasSubstr("WAIT")));
  EXPECT_THAT(older, Not(HasSubstr("REDUCE")));
  EXPECT_THAT(Run("show zbv -p 2 -m 4 --format comms-csv --max-active-stages 2").out,
              HasSubstr("0UNSHARD,3UNSHARD,0F0"));
  ExpectBadInput("show zbv -p 2 -m 4 --format csv --torch 2.8", "is for --format comms-csv");
  ExpectBadInput("show zbv -p 2 -m 4 --max-active-stages 2", "is for --format comms-csv, not");
  ExpectBadInput("show zbv -p 2 -m 4 --format comms-csv --torch 2.9", "2.9 not in {2.8,2.15}");
  for (const char* name : {"chimera -v 2", "pipedream", "pipedream-2bw", "1f1b --recompute"}) {
    for (const char* format : {"csv", "comms-csv"}) {
      const Outcome written = Run(std::string("show ") + name + " -p 2 -m 4 --format " + format);
      EXPECT_EQ(written.exit_code, 0) << written.err;
      EXPECT_THAT(written.err, HasSubstr("warning: PyTorch cannot run this timetable: "));
    }
  }
  EXPECT_EQ(Run("show zbv -p 2 -m 4 --format csv").err, "");
}

TEST_F(ScheduleCommand, TakesATimetableFromStandardInput) {
  const std::string table = Write("table.csv", Run("show 1f1b -p 2 -m 4 --format csv").out);
  const Outcome sound = Run("check - < " + table);
  EXPECT_EQ(sound.exit_code, 0) << sound.err;
  EXPECT_EQ(sound.out, "standard input: sound (2 ranks, 2 stages, 4 micro-batches, 16 actions)\n");
  EXPECT_EQ(Run("show - --format csv < " + table).out, Contents(table));
  EXPECT_THAT(Run("show - --format svg < " + table).out,
              HasSubstr(">standard input: 2 ranks, 4 micro-batches<"));
  ExpectBadInput("show - -m 5 < " + table, "-m 5 was asked for, but the file has 4");
  ExpectBadInput("check - < " + Write("bad.csv", "0F0,0B0\n1F0,1X0\n"), "standard input");
  ExpectBadInput("check - < /dev/null", "standard input");
  const Outcome unsound = Run("check - < " + Write("unsound.csv", "0F0\n"));
  EXPECT_EQ(unsound.exit_code, 4);
  EXPECT_THAT(unsound.err, HasSubstr("standard input: not a sound timetable: 1 defect"));
  const std::string plan = Path("plan.json");
  ASSERT_EQ(std::system((SluiceProgram() +
                         " plan gpt2 --devices 2 --device h200 "
                         "--micro-batches 4 --format json > " +
                         plan)
                            .c_str()),
            0);
  EXPECT_EQ(Run("show - --format csv < " + plan).out, Run("show " + plan + " --format csv").out);
}

// A flag that would do nothing is refused, and the message says what it is for.
TEST_F(ScheduleCommand, RefusesFlagsWithoutEffect) {
  ExpectBadInput("show 1f1b -p 4 -m 8 --actions", "--actions is for --format json, not for text");
  ExpectBadInput("compare 1f1b -p 4 -m 8 --actions", "is for --format json");
  ExpectBadInput("show 1f1b -p 4 -m 8 --measured run.json", "is for --format html");
  ExpectBadInput("show 1f1b -p 4 -m 8 --against zb-h1 --format svg", "is for --format html");
  ExpectBadInput("show 1f1b -p 4 -m 8 --title x", "is for --format svg");
  ExpectBadInput("show 1f1b -p 4 -m 8 --width 700 --format csv",
                 "is for --format text or svg, not for csv");
  ExpectBadInput("show 1f1b -p 4 -m 8 --width 100 --format svg", "at least 320 pixels");
  ExpectBadInput("show 1f1b -p 4 -m 8 --cost RECOMPUTE=0.5",
                 "RECOMPUTE has no effect without --recompute");
  ExpectBadInput("show 1f1b -p 4 -m 8 --time-limit 1s", "search of schedule auto");
  ExpectBadInput("compare 1f1b zb-h1 -p 4 -m 8 --time-limit 1s", "search of schedule auto");
  EXPECT_EQ(Run("compare auto 1f1b -p 2 -m 2 --time-limit 1s").exit_code, 0);
  ExpectBadInput("compare 1f1b gpipe -p 2 -m 4 --group 2",
                 "--group 2: none of 1f1b, gpipe has groups; leave --group out");
  EXPECT_EQ(Run("compare 1f1b interleaved -p 2 -m 4 --group 2").exit_code, 0);
  ExpectBadInput("compare 1f1b gpipe -p 2 -m 4 -v 2",
                 "--chunks 2: none of 1f1b, gpipe has a choice of chunks; leave --chunks out");
  ExpectBadInput("show 1f1b -p 2 -m 4 -v 2 --format html --against gpipe", "leave --chunks out");
  EXPECT_EQ(Run("compare 1f1b zbv -p 2 -m 4 -v 2").exit_code, 0) << "zbv has two in any case";
  EXPECT_EQ(Run("compare 1f1b gpipe -p 2 -m 4 -v 1").exit_code, 0);
  EXPECT_THAT(Run("show 1f1b -p 4 -m 8 --format svg --width 700 --title 'Figure 1'").out,
              HasSubstr(">Figure 1<"));
  EXPECT_EQ(Run("show 1f1b -p 4 -m 8 --format svg --title ''").exit_code, 0);
}

// A flag that changes nothing in a search, in a file or in the sweep is refused there, too.
TEST_F(ScheduleCommand, RefusesWhatOthersTake) {
  ExpectBadInput("show auto -p 4 -m 8 --placement bidirectional",
                 "schedule auto has one copy of the model, placed looped or v; leave --placement");
  ExpectBadInput("show auto -p 4 -m 8 --group 4", "schedule auto has no groups; leave --group out");
  ExpectBadInput("show auto -p 4 -m 8 --update-every 4",
                 "schedule auto does not choose when weights change; leave --update-every out");
  const std::string file = Path("table.csv");
  ASSERT_EQ(Run("show interleaved -p 2 -m 4 -v 2 --format csv -o " + file).exit_code, 0);
  ExpectBadInput("show " + file + " --group 4",
                 file + " is a whole timetable, in which --group changes nothing; leave it out");
  ExpectBadInput("show " + file + " --update-every 3", "in which --update-every changes nothing");
  ExpectBadInput("compare 1f1b -p 4 -m 8 -v auto", "-v auto is for schedule auto; give a number");
  ExpectBadInput("show 1f1b --stage-replicas 3,1 -m 8 -v auto", "-v auto is for schedule auto");
  EXPECT_EQ(Run("compare 1f1b auto -p 2 -m 2 -v auto").exit_code, 0);
  const std::string sweep = "compare --memory-sweep -p 2 -m 2 --json ";
  ExpectBadInput(sweep + "--actions", "leave --actions out");
  ExpectBadInput(sweep + "--update-every 3", "leave --update-every out");
  ExpectBadInput(sweep + "--placement bidirectional", "leave --placement bidirectional out");
  ExpectBadInput(sweep + "-v auto", "--memory-sweep tries whole stages and stages cut in two");
}

// Of several schedules, those that have no use for a flag go without it; one of them must have.
TEST_F(ScheduleCommand, GivesFlagsToThoseThatTakeThem) {
  const json lines = json::parse(
      Run("compare 1f1b pipedream-2bw auto interleaved -p 2 -m 8 --update-every 4 --group 4 --json")
          .out);
  ASSERT_EQ(lines.size(), 4u);
  const auto alone = [&](const std::string& show) {
    return json::parse(Run("show " + show + " -p 2 -m 8 --json").out)["critical_path"];
  };
  EXPECT_EQ(lines[0]["critical_path"], alone("1f1b"));
  EXPECT_EQ(lines[1]["critical_path"], alone("pipedream-2bw --update-every 4"));
  EXPECT_EQ(lines[2]["critical_path"], alone("auto"));
  EXPECT_EQ(lines[3]["critical_path"], alone("interleaved --group 4"));
  for (const char* flag : {"--update-every 4", "--group 4"}) {
    const Outcome everything = Run(std::string("compare -p 2 -m 8 --json ") + flag);
    EXPECT_EQ(everything.err, "");
    EXPECT_EQ(json::parse(everything.out).size(), json::parse(Run("list --json").out).size());
  }
  ExpectBadInput("compare 1f1b auto -p 2 -m 4 --update-every 2",
                 "--update-every 2: none of 1f1b, auto chooses when weights change; leave "
                 "--update-every out");
  const std::string page = " -p 2 -m 4 --format html --against ";
  const std::string file = Path("table.csv");
  ASSERT_EQ(Run("show 1f1b -p 2 -m 4 --format csv -o " + file).exit_code, 0);
  for (const std::string& other : {std::string("1f1b"), std::string("auto"), file}) {
    EXPECT_EQ(Run(absl::StrCat("show interleaved --group 4", page, other)).exit_code, 0);
    EXPECT_EQ(Run(absl::StrCat("show ", other, " --group 4", page, "interleaved")).exit_code, 0);
    ExpectBadInput(absl::StrCat("show gpipe --group 4", page, other),
                   "--group 4: none of gpipe, " + other);
  }
  EXPECT_EQ(Run("show 1f1b -v auto" + page + "auto").exit_code, 0);
  EXPECT_EQ(Run("show chimera -v 2 --placement bidirectional" + page + "auto").exit_code, 0);
}

// The unit of a page's times, and the makespan of each of its schedules.
struct PageTimes {
  bool seconds;
  std::vector<double> makespans;
};

PageTimes TimesOf(const std::string& page) {
  PageTimes times{.seconds = page.find("\"seconds\":true") != std::string::npos, .makespans = {}};
  const std::string field = "\"makespan\":";
  for (size_t at = page.find(field); at != std::string::npos; at = page.find(field, at + 1))
    times.makespans.push_back(std::stod(page.substr(at + field.size())));
  return times;
}

// Two schedules on one axis have one unit: that of the plan, or of the measured run, that is first.
TEST_F(ScheduleCommand, PagesMixNoUnits) {
  const std::string plan = Path("plan.json");
  ASSERT_EQ(std::system((SluiceProgram() +
                         " plan mlp --devices 2 --device h100 --schedule 1f1b --micro-batches 8 "
                         "--micro-batch-size 1 -o " +
                         plan)
                            .c_str()),
            0);
  const std::string costs = Write("costs.json", json::parse(Contents(plan))["costs"].dump());
  const auto seconds_of = [&](const std::string& name) {
    const json report = json::parse(Run("show " + name + " -p 2 -m 8 --json --costs " + costs).out);
    return report["makespan"].get<double>();
  };
  const auto expect_pair = [&](const std::string& first, const std::string& second,
                               const std::vector<double>& makespans) {
    const Outcome outcome = Run("show " + first + " --format html --against " + second);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const PageTimes times = TimesOf(outcome.out);
    EXPECT_TRUE(times.seconds);
    ASSERT_EQ(times.makespans.size(), 2u);
    EXPECT_DOUBLE_EQ(times.makespans[0], makespans[0]) << first;
    EXPECT_DOUBLE_EQ(times.makespans[1], makespans[1]) << second;
  };
  const double planned = seconds_of("1f1b");
  for (const std::string name : {"gpipe", "auto"}) {
    expect_pair(plan, name, {planned, seconds_of(name)});
    ExpectBadInput(absl::StrCat("show ", name, " -p 2 -m 8 --format html --against ", plan),
                   absl::StrCat("the costs of ", plan, " are in seconds, and ", name,
                                " has no costs; show ", plan, " --against ", name));
  }
  expect_pair(plan, plan, {planned, planned});
  ExpectBadInput(
      "show " + plan + " --format html --against interleaved",
      plan + " says the costs of 2 stages, not 4; give --cost, which holds for any number");
  const std::string uniform = " --format html --cost F=1,B=2 --against ";
  const PageTimes units = TimesOf(Run("show " + plan + uniform + "interleaved").out);
  EXPECT_FALSE(units.seconds);
  EXPECT_EQ(units.makespans, (std::vector<double>{27, 51}));

  // F takes 2 and 3 microseconds, B 4 and 5; the run waited between them.
  const std::string trace = Write("run.json", R"([
      {"name":"0F0","ph":"X","ts":10,"dur":2,"tid":0,"args":{"stage":0,"micro_batch":0}},
      {"name":"1F0","ph":"X","ts":13,"dur":3,"tid":1,"args":{"stage":1,"micro_batch":0}},
      {"name":"1B0","ph":"X","ts":20,"dur":5,"tid":1,"args":{"stage":1,"micro_batch":0}},
      {"name":"0B0","ph":"X","ts":30,"dur":4,"tid":0,"args":{"stage":0,"micro_batch":0}}])");
  // ZB-H1 sends a gradient after I, half of B: 2 + 3 + 2.5 + 4.
  expect_pair("1f1b -p 2 -m 1 --measured " + trace, "zb-h1", {14e-6, 11.5e-6});
}

// What a measured run took makes other costs than those for which `auto` proved its bound: 21,
// which the memory limit causes, and of which the bound of the run's costs knows nothing.
TEST_F(ScheduleCommand, PagesOfMeasuredRunsHaveTheBoundOfTheirCosts) {
  const std::string show = "show auto -p 4 -m 4 --memory-limit 2 ";
  json trace = json::parse(Run(show + "--format trace").out);
  for (json& event : trace["traceEvents"]) {
    for (const char* time : {"ts", "dur"})
      if (event.contains(time)) event[time] = event[time].get<double>() / 4;
  }
  const std::string measured = Write("run.json", trace.dump());
  EXPECT_THAT(Run(show + "--format html").out, HasSubstr("\"makespan\":21,\"lowerBound\":21"));
  EXPECT_THAT(Run(show + "--format html --measured " + measured).out,
              HasSubstr("\"makespan\":5.25,\"lowerBound\":3.75"));
}

// A file says how many ranks and micro-batches the schedule beside it has.
TEST_F(ScheduleCommand, PagesTakeTheSizeOfAFile) {
  const std::string file = Path("table.csv");
  ASSERT_EQ(Run("show 1f1b -p 4 -m 8 --format csv -o " + file).exit_code, 0);
  const std::string page = Run("show " + file + " --format html --against zb-h1").out;
  EXPECT_THAT(page, HasSubstr("zb-h1: 4 ranks, 8 micro-batches"));
  EXPECT_EQ(page, Run("show " + file + " -p 4 -m 8 --format html --against zb-h1").out);
  EXPECT_THAT(Run("show " + file + " --format html --against auto").out,
              HasSubstr("auto: 4 ranks, 8 micro-batches"));
  // Another file has a size of its own.
  const std::string small = Path("small.csv");
  ASSERT_EQ(Run("show 1f1b -p 2 -m 2 --format csv -o " + small).exit_code, 0);
  EXPECT_EQ(Run("show " + file + " --format html --against " + small).exit_code, 0);
}

// What keeps several schedules out is said once, with their names.
TEST_F(ScheduleCommand, ComparisonSaysOnceWhatIsWrong) {
  const Outcome outcome = Run("compare -p 3 -m 4 --costs " + Write("c.json", R"({"F":[1,2,3]})"));
  EXPECT_EQ(outcome.exit_code, 0);
  const std::string why = "F has 3 values, expected 6, one for each stage; left out: interleaved, ";
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(why), HasSubstr("left out: chimera\n")));
  EXPECT_EQ(outcome.err.find("F has 3"), outcome.err.rfind("F has 3"));
}

// What is wrong with costs does not depend on the schedule alone, but which one it keeps out does.
TEST_F(ScheduleCommand, ComparisonNamesTheScheduleThatCannotBePriced) {
  const std::string costs = Write("c.json", R"({"F":[1,2,3]})");
  ExpectBadInput("compare 1f1b interleaved -p 3 -m 4 --costs " + costs,
                 "interleaved: " + costs +
                     ": line 1, column 6: F has 3 values, expected 6, one for each stage");
  // A message that names it anyway does so once.
  ExpectBadInput("compare 1f1b hanayo -p 3 -m 4 --chunks 3", "sluice: --chunks 3: schedule hanayo");
}

TEST_F(ScheduleCommand, TablesFitIntoEightyColumns) {
  const char* const tables[] = {"compare -p 8 -m 24",
                                "compare -p 4 -m 8 --cost F=1.23456,B=2.34567,send=0.0123",
                                "compare -p 4 -m 8 --memory-sweep",
                                "compare 1f1b zb-h1 -p 4 -m 8 --cost F=123456,I=1,W=1",
                                "list",
                                "list --brief"};
  for (const char* table : tables) {
    const Outcome outcome = Run(table);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

// Three ranks take turns at the first stage, which costs three times as much.
TEST_F(ScheduleCommand, DrawsStagesOfSeveralRanks) {
  const json report =
      json::parse(Run("show 1f1b -m 12 --stage-replicas 3,1 --cost F=1,B=2 --json --actions").out);
  EXPECT_EQ(report["ranks"], 4);
  EXPECT_EQ(report["stages"], 2);
  EXPECT_EQ(report["work"], json::parse("[36.0, 36.0, 36.0, 36.0]"));
  EXPECT_EQ(report["makespan"], 45);
  EXPECT_EQ(report["lower_bound"], 39);
  ASSERT_EQ(report["rank_actions"].size(), 4u);
  EXPECT_EQ(report["rank_actions"][1].size(), 8u);
  EXPECT_EQ(report["rank_actions"][1][0]["micro_batch"], 1);
  EXPECT_THAT(Run("show 1f1b -m 12 --stage-replicas 3,1").out,
              HasSubstr("1f1b, stages of 3+1: 4 ranks, 12 micro-batches, 2 stages"));
  EXPECT_THAT(Run("show 1f1b -m 12 --stage-replicas 3,1 --format svg").out, HasSubstr("rank 3"));
  EXPECT_EQ(report["critical_path"].front()["start"], 0);
  EXPECT_EQ(report["critical_path"].back()["end"], 45);
  EXPECT_THAT(Run("show 1f1b -m 12 --stage-replicas 3,1 --format html").out,
              HasSubstr("\"ranks\":4,\"stages\":2"));
  EXPECT_EQ(Run("show 1f1b -m 12 --stage-replicas 3,1 --memory-limit 1").exit_code, 3);
  // The file has one row per stage, and --stage-replicas says how many ranks share each row.
  const std::string path = Path("rows.csv");
  EXPECT_EQ(Run("show 1f1b -m 12 --stage-replicas 3,1 --format csv -o " + path).exit_code, 0);
  EXPECT_EQ(json::parse(Run("show " + path + " --stage-replicas 3,1 --json").out)["makespan"], 45);
  EXPECT_THAT(Run("show 1f1b -m 12 --stage-replicas 3,1 --format csv").err,
              HasSubstr("a row for each of 2 stages, not for each of 4 ranks; who reads it must "
                        "be given --stage-replicas 3,1"));
  ExpectBadInput("show " + path + " --stage-replicas 1,1,1", "2 stages in 2 rows");
  ExpectBadInput("show 1f1b -m 12 --stage-replicas 3,x", "expected the ranks of each stage");
  ExpectBadInput("show 1f1b -m 12 --stage-replicas 3,0", "expected the ranks of each stage");
  ExpectBadInput("show 1f1b -m 12 -p 3 --stage-replicas 3,1", "is 4 ranks, not -p 3");
  ExpectBadInput("show 1f1b --stage-replicas 3,1", "needs -m");
  ExpectBadInput("show 1f1b -m 12 --stage-replicas 3,1 --cost F=1e308", "too large");
  ExpectBadInput("show zbv -m 12 --stage-replicas 3,1", "several stages each");
  ExpectBadInput("show 1f1b -m 12 --stage-replicas 3,1 --format comms-csv", "one rank per stage");
}

TEST_F(ScheduleCommand, TextIsPlainAndNarrowWhenPiped) {
  for (const char* size :
       {"-p 4 -m 8", "-p 8 -m 32", "-p 8 -m 24 --cost F=18522,I=18086,W=9337,send=601"}) {
    for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1"}) {
      const Outcome outcome = Run(std::string("show ") + name + " " + size);
      EXPECT_EQ(outcome.exit_code, 0);
      EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
      for (size_t from = 0, to = 0; (to = outcome.out.find('\n', from)) != std::string::npos;
           from = to + 1) {
        EXPECT_LE(to - from, 80u) << outcome.out.substr(from, to - from);
      }
    }
  }
}

TEST_F(ScheduleCommand, ComparesAndLists) {
  const json lines = json::parse(Run("compare --json -p 4 -m 8").out);
  const json catalogue = json::parse(Run("list --json").out);
  ASSERT_EQ(lines.size(), catalogue.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["schedule"], catalogue[i]["name"]);
    EXPECT_GE(lines[i]["gap"].get<double>(), 0);
    for (const char* field : {"summary", "needs", "bubble", "memory", "weights", "source"}) {
      EXPECT_NE(catalogue[i][field].get<std::string>(), "");
    }
  }
  for (const int columns : {50, 80, 157, 158, 160}) {
    const Outcome list = Run("list", columns);
    for (const auto& entry : catalogue) {
      EXPECT_THAT(list.out, HasSubstr(entry["name"].get<std::string>() + "  "));
    }
    std::istringstream lines_of(list.out);
    for (std::string line; std::getline(lines_of, line);) {
      EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
    }
  }
  const std::string brief = Run("list --brief", 160).out;
  EXPECT_LT(std::count(brief.begin(), brief.end(), '\n'), 2 * static_cast<int>(catalogue.size()));
  for (const auto& entry : catalogue) {
    EXPECT_THAT(brief, HasSubstr(entry["name"].get<std::string>() + "  "));
    EXPECT_THAT(brief, HasSubstr(entry["summary"].get<std::string>() + "\n"));
    EXPECT_THAT(brief, Not(HasSubstr(entry["source"].get<std::string>())));
  }
  ExpectBadInput("list zbv --brief", "--brief lists all schedules; leave it out, or leave out zbv");
  ExpectBadInput("list --brief --json", "--json excludes --brief");
  // --format json is the same as --json.
  EXPECT_EQ(Run("compare 1f1b -p 4 -m 8 --format json").out,
            Run("compare 1f1b -p 4 -m 8 --json").out);
  const Outcome two = Run("compare 1f1b zb-h1 -p 4 -m 8");
  EXPECT_THAT(two.out, HasSubstr("1f1b"));
  EXPECT_THAT(two.out, HasSubstr("zb-h1"));
  EXPECT_EQ(two.out.find("gpipe"), std::string::npos);
}

// `list NAME` says what the list says, more, and what `show` draws.
TEST_F(ScheduleCommand, DescribesEachSchedule) {
  for (const json& entry : json::parse(Run("list --json").out)) {
    const auto name = entry["name"].get<std::string>();
    json details = json::parse(Run("list " + name + " --json").out);
    EXPECT_EQ(details["runs_in"][0], "sluice");
    const bool for_pytorch = !Run("show " + name + " -p 4 -m 8 --format comms-csv").out.empty() &&
                             Contents(Path("err")).find("PyTorch cannot") == std::string::npos;
    EXPECT_EQ(!details["not_in"].contains("PyTorch"), for_pytorch) << name;
    EXPECT_EQ(!details["not_in"].contains("Megatron-LM"), name == "1f1b" || name == "interleaved");
    EXPECT_EQ(details["runs_in"].size() + details["not_in"].size(), 3);
    details.erase("runs_in");
    details.erase("not_in");
    EXPECT_EQ(details, entry);

    constexpr int kColumns = 50;
    const std::string text = Run("list " + name, kColumns).out;
    EXPECT_THAT(text, HasSubstr("  runs in  sluice"));
    EXPECT_THAT(text, HasSubstr(Run("show " + name + " -p 4 -m 8", kColumns).out)) << name;
    std::istringstream lines_of(text);
    for (std::string line; std::getline(lines_of, line);) {
      EXPECT_LE(line.size(), static_cast<size_t>(kColumns)) << line;
    }
  }
  EXPECT_THAT(Run("list interleaved").out, HasSubstr("  flags    --chunks (usually 2), --group\n"));
}

}  // namespace
}  // namespace sluice
