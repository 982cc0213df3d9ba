#include "tools/schedule/schedule_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "models/spec/units.h"
#include "schedules/counted.h"
#include "schedules/render/render.h"
#include "tools/command.h"
#include "tools/flag_values.h"
#include "tools/schedule/answer/schedule_dealt.h"
#include "tools/schedule/timetable/schedule_names.h"
#include "tools/schedule/timetable/schedule_source.h"

namespace sluice {
namespace {

// Columns of a text picture; of an SVG, pixels.
constexpr int kLeastWidth = 40, kMostWidth = 10000;

void ReadChunks(const std::string& text, ScheduleFlags& flags) {
  int chunks = 0;
  flags.choose_chunks = text == "auto";
  if (flags.choose_chunks) return;
  if (!absl::SimpleAtoi(text, &chunks)) throw CLI::ConversionError(text, "--chunks");
  flags.chunks = chunks;
}

void AddSizeFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("-p,--ranks", flags.ranks, "Ranks (devices) of the pipeline");
  app.add_option("-m,--micro-batches", flags.micro_batches, "Micro-batches per step");
  app.add_option_function<std::string>(
      "-v,--chunks", [&flags](const std::string& text) { ReadChunks(text, flags); },
      "Stages per rank. For the schedule auto also 'auto': the best number, with stages cut");
  app.add_option(
      "--group", flags.group,
      "Micro-batches that go through a chunk together (default: about the number of ranks)");
  app.add_option("--update-every", flags.update_every,
                 "pipedream-2bw: micro-batches per update (default: the number of ranks)");
}

void AddCostFlags(CLI::App& app, ScheduleFlags& flags) {
  auto* uniform = app.add_option("--cost", flags.uniform_costs,
                                 "The costs of every stage, such as F=1,I=1,W=1,B=2,RECOMPUTE=1,"
                                 "send=0,overlap=3");
  app.add_option("--costs", flags.costs_file,
                 "JSON file with the costs of each stage (docs/formats)")
      ->excludes(uniform);
  app.add_flag("--recompute", flags.recompute,
               "Drop activations after each forward, and rebuild them ahead of its backward");
  app.add_option("--memory-limit", flags.memory_limit,
                 "The most (stage, micro-batch) activations that a rank may hold");
  app.add_option("--time-limit", flags.time_limit,
                 "How long auto may search, such as 1s or 200ms (default: a fixed amount of work)");
}

void AddOutputFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("-o,--output", flags.output, "File to write instead of stdout");
  app.add_flag("--actions", flags.actions, "With JSON: also print when each action runs");
}

void AddPlacementFlag(CLI::App& app, ScheduleFlags& flags) {
  app.add_option(
         "--placement", flags.placement,
         "On which ranks stages are: looped, v (chunks alternate in direction) or bidirectional "
         "(two copies of the model)")
      ->check(CLI::IsMember({"looped", "v", "bidirectional"}));
}

CLI::Option* AddJsonFlag(CLI::App& app, ScheduleFlags& flags) {
  return app.add_flag("--json", flags.json, "Print one JSON document");
}

// `format` has passed the option's check.
ScheduleFormat FormatOf(const std::string& format) {
  static const std::map<std::string, ScheduleFormat> formats = {
      {"text", ScheduleFormat::kText},  {"svg", ScheduleFormat::kSvg},
      {"html", ScheduleFormat::kHtml},  {"csv", ScheduleFormat::kCsv},
      {"json", ScheduleFormat::kJson},  {"comms-csv", ScheduleFormat::kCommsCsv},
      {"trace", ScheduleFormat::kTrace}};
  return formats.at(format);
}

PyTorchOptions PyTorchOptionsOf(const ScheduleFlags& flags) {
  return {.version = PyTorchVersionNamed(flags.torch).value_or(PyTorchOptions().version),
          .max_active_stages = flags.max_active_stages.value_or(0)};
}

ScheduleView ViewOf(const ScheduleFlags& flags) {
  return {.format = flags.json ? ScheduleFormat::kJson : FormatOf(flags.format),
          .output = flags.output,
          .width = flags.width,
          .title = flags.title,
          .actions = flags.actions,
          .pytorch = PyTorchOptionsOf(flags)};
}

// Refuses the flags that have no effect on the format that is asked for.
absl::Status RefuseUnused(const ScheduleFlags& flags) {
  struct Flag {
    const char* name;
    bool given;
    std::vector<absl::string_view> formats;
  };
  const std::string format = flags.json ? "json" : flags.format;
  const Flag all[] = {{"--actions", flags.actions, {"json"}},
                      {"--width", flags.width.has_value(), {"text", "svg"}},
                      {"--title", flags.title.has_value(), {"svg"}},
                      {"--against", !flags.against.empty(), {"html"}},
                      {"--measured", !flags.measured.empty(), {"html"}},
                      {"--torch", !flags.torch.empty(), {"comms-csv"}},
                      {"--max-active-stages", flags.max_active_stages.has_value(), {"comms-csv"}}};
  for (const Flag& flag : all) {
    const auto shown = std::find(flag.formats.begin(), flag.formats.end(), format);
    if (!flag.given || shown != flag.formats.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag.name, " is for --format ", absl::StrJoin(flag.formats, " or "),
                     ", not for ", format, "; leave it out, or give that format"));
  }
  if (format == "svg" && flags.width.value_or(kLeastSvgWidth) < kLeastSvgWidth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--width ", *flags.width, ": an SVG is at least ", kLeastSvgWidth, " pixels wide"));
  }
  return absl::OkStatus();
}

// Whether any of the schedules is searched for.
bool AsksForAuto(const ScheduleFlags& flags) {
  const std::vector<std::string>& names = flags.names;
  const bool whole_catalogue = flags.what.empty() && names.empty();
  return flags.what == kAuto || flags.against == kAuto || whole_catalogue ||
         std::find(names.begin(), names.end(), kAuto) != names.end();
}

absl::Status CheckCounts(const ScheduleFlags& flags) {
  for (const auto& [name, value] :
       {std::pair("--group", flags.group), std::pair("--update-every", flags.update_every),
        std::pair("--memory-limit", flags.memory_limit)}) {
    if (absl::Status ok = CheckAtLeastOne(name, value); !ok.ok()) return ok;
  }
  return absl::OkStatus();
}

absl::StatusOr<ScheduleQuestion> ReadQuestion(const ScheduleFlags& flags) {
  if (absl::Status ok = CheckJsonFlag(flags.json, flags.format); !ok.ok()) return ok;
  if (absl::Status ok = RefuseUnused(flags); !ok.ok()) return ok;
  if (absl::Status ok = CheckCounts(flags); !ok.ok()) return ok;
  ScheduleQuestion asked{.ranks = flags.ranks,
                         .micro_batches = flags.micro_batches,
                         .chunks = flags.chunks,
                         .group = flags.group,
                         .update_every = flags.update_every,
                         .choose_chunks = flags.choose_chunks,
                         .recompute = flags.recompute,
                         .placement = flags.placement,
                         .stage_members = {},
                         .costs = {},
                         .memory_limit = flags.memory_limit,
                         .time_limit = {},
                         .stop = {}};
  absl::StatusOr<GivenCosts> costs = flags.costs_file.empty()
                                         ? GivenCosts::FromText(flags.uniform_costs)
                                         : GivenCosts::FromFile(flags.costs_file);
  if (!costs.ok()) return costs.status();
  asked.costs = *std::move(costs);
  // A file may have RECOMPUTEs of its own.
  if (asked.costs.prices_recompute() && !flags.recompute && !NamesFile(flags.what) &&
      !NamesFile(flags.against)) {
    return absl::InvalidArgumentError(
        "--cost: RECOMPUTE has no effect without --recompute; give that, or leave it out");
  }
  if (flags.choose_chunks && !AsksForAuto(flags)) {
    return absl::InvalidArgumentError("-v auto is for schedule auto; give a number");
  }
  if (flags.time_limit.empty()) return asked;
  const absl::StatusOr<double> seconds = ParseTimeLimit(flags.time_limit);
  if (!seconds.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--time-limit: ", std::string(seconds.status().message())));
  }
  if (!AsksForAuto(flags)) {
    return absl::InvalidArgumentError(
        "--time-limit limits the search of schedule auto; leave it out for others");
  }
  asked.time_limit = *seconds;
  return asked;
}

// Where a schedule is generated, the sum of --stage-replicas replaces -p.
absl::Status ReadStageMembers(const ScheduleFlags& flags, ScheduleQuestion& asked) {
  absl::StatusOr<std::vector<int>> members = ParseStageMembers(flags.stage_replicas);
  if (!members.ok()) return members.status();
  asked.stage_members = *std::move(members);
  if (asked.stage_members.empty()) return absl::OkStatus();
  if (flags.format == "comms-csv") return NoCommsOfSharedStages();
  if (!flags.against.empty()) {
    return absl::InvalidArgumentError("--against and --stage-replicas do not go together");
  }
  if (NamesFile(flags.what)) return absl::OkStatus();
  if (!flags.micro_batches) {
    return absl::InvalidArgumentError("--stage-replicas needs -m/--micro-batches");
  }
  const int ranks = std::accumulate(asked.stage_members.begin(), asked.stage_members.end(), 0);
  if (asked.ranks.value_or(ranks) != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("--stage-replicas ", flags.stage_replicas,
                                                   " is ", Counted(ranks, "rank"), ", not -p ",
                                                   *asked.ranks, "; leave -p out"));
  }
  asked.ranks = ranks;
  return absl::OkStatus();
}

}  // namespace

void AddListFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("schedule", flags.what,
                 "NAME of one schedule: all about it, with a drawing (default: list all)");
  CLI::Option* json = AddJsonFlag(app, flags);
  app.add_flag("--brief", flags.brief, "List only names and summaries")->excludes(json);
}

void AddShowFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option(
         "schedule", flags.what,
         "NAME of a schedule, auto, a FILE.csv, or a plan (FILE.json of sluice plan); -: a file "
         "from standard input")
      ->required();
  AddSizeFlags(app, flags);
  AddCostFlags(app, flags);
  AddOutputFlags(app, flags);
  AddPlacementFlag(app, flags);
  app.add_option(
      "--stage-replicas", flags.stage_replicas,
      "Ranks that share each stage, such as 3,1, instead of -p. They take its micro-batches "
      "in turn, and a stage costs --cost times the number of its ranks");
  app.add_option("--format", flags.format, "Format: text, svg, html, csv, comms-csv, trace or json")
      ->check(CLI::IsMember({"text", "svg", "html", "csv", "comms-csv", "trace", "json"}));
  app.add_option("--torch", flags.torch,
                 "With comms-csv: the PyTorch that runs it, 2.8 or 2.15, whose files also have "
                 "REDUCE_GRAD and the waits of sends (default: 2.15)")
      ->check(CLI::IsMember(
          std::vector<std::string>(std::begin(kPyTorchVersions), std::end(kPyTorchVersions))));
  app.add_option("--max-active-stages", flags.max_active_stages,
                 "With comms-csv: stages of a rank whose parameters FSDP gathers at once; adds "
                 "UNSHARD and RESHARD (default: none are sharded)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--width", flags.width,
                 "Width of the picture: columns with text (default: those of the terminal), pixels "
                 "with svg (default: as wide as its bars need)")
      ->check(CLI::Range(kLeastWidth, kMostWidth));
  app.add_option("--title", flags.title,
                 "With svg: this title; '' for none, and no line of facts below it");
  app.add_option("--against", flags.against,
                 "With html: show another schedule, NAME or FILE.csv, on the same time axis");
  app.add_option("--measured", flags.measured,
                 "With html: show a run, from the file of train --trace, under the planned bars");
  AddJsonFlag(app, flags);
}

void AddCompareFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("schedules", flags.names, "NAMEs of schedules (default: all of them)");
  AddSizeFlags(app, flags);
  AddCostFlags(app, flags);
  AddOutputFlags(app, flags);
  AddPlacementFlag(app, flags);
  app.add_flag("--memory-sweep", flags.memory_sweep,
               "Find the best makespan under each memory limit, as a table and a plot");
  app.add_option("--format", flags.format, "Format: text or json; with --memory-sweep also svg")
      ->check(CLI::IsMember({"text", "svg", "json"}));
  AddJsonFlag(app, flags);
}

void AddCheckFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("file", flags.what,
                 "FILE.csv with a timetable, or a plan (FILE.json); -: standard input")
      ->required();
  AddPlacementFlag(app, flags);
  AddJsonFlag(app, flags);
}

absl::StatusOr<ShowQuestion> ReadShowQuestion(const ScheduleFlags& flags) {
  absl::StatusOr<ScheduleQuestion> asked = ReadQuestion(flags);
  if (!asked.ok()) return asked.status();
  if (absl::Status ok = ReadStageMembers(flags, *asked); !ok.ok()) return ok;
  return ShowQuestion{.what = flags.what,
                      .asked = *std::move(asked),
                      .view = ViewOf(flags),
                      .against = flags.against,
                      .measured = flags.measured};
}

absl::StatusOr<CompareQuestion> ReadCompareQuestion(const ScheduleFlags& flags) {
  absl::StatusOr<ScheduleQuestion> asked = ReadQuestion(flags);
  if (!asked.ok()) return asked.status();
  return CompareQuestion{.names = flags.names,
                         .asked = *std::move(asked),
                         .view = ViewOf(flags),
                         .memory_sweep = flags.memory_sweep};
}

}  // namespace sluice
