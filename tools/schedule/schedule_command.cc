#include <algorithm>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/render/render.h"
#include "schedules/simulate/simulate.h"
#include "schedules/sum_order.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/schedule/schedule_auto.h"
#include "tools/schedule/schedule_dealt.h"
#include "tools/schedule/schedule_list.h"
#include "tools/schedule/schedule_page.h"
#include "tools/schedule/schedule_report.h"
#include "tools/schedule/schedule_source.h"
#include "tools/schedule/schedule_sweep.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

// What `check` lists at most.
constexpr int kMostDefects = 10000;
// Columns of a text picture.
constexpr int kLeastWidth = 40, kMostWidth = 10000;

// The table as text in a format that needs no times; nothing for the other formats.
absl::StatusOr<std::optional<std::string>> FormatUntimed(const Timetable& table,
                                                         const std::string& format) {
  if (format == "csv") return FormatTimetableCsv(table);
  if (format != "comms-csv") return std::nullopt;
  if (table.lowered()) return FormatTimetableCsv(table);
  const absl::StatusOr<Timetable> lowered = LowerTimetable(table);
  if (!lowered.ok()) return lowered.status();
  return FormatTimetableCsv(*lowered);
}

void WarnOfMemory(const ScheduleCosts& costs, const Simulation& run) {
  for (size_t rank = 0; rank < costs.device_memory.size() && rank < run.peak_bytes.size(); ++rank) {
    if (run.peak_bytes[rank] <= costs.device_memory[rank]) continue;
    std::cerr << "sluice: warning: rank " << rank << " holds up to " << run.peak_bytes[rank]
              << " bytes of activations; its device has " << costs.device_memory[rank] << "\n";
  }
}

std::string FormatRun(const Simulation& run, const Timetable& table, const ScheduleCosts& costs,
                      const ScheduleFlags& flags) {
  WarnOfMemory(costs, run);
  if (flags.format == "json") return SimulationJson(run, table, flags.actions).dump() + "\n";
  if (flags.format == "svg") return RenderSvg(run, table);
  if (flags.format == "trace") return RenderTrace(run, table, &costs.stages);
  const bool to_terminal = flags.output.empty();
  return RenderText(run, table,
                    {.columns = flags.width.value_or(OutputColumns()),
                     .colour = to_terminal && WantsColour(),
                     .unicode = ShowsUnicode()});
}

// `bound`: what is proved of every timetable within the limits; 0 where nothing is.
absl::StatusOr<std::string> FormatTable(const Timetable& table, const ScheduleFlags& flags,
                                        double bound) {
  const absl::StatusOr<std::optional<std::string>> untimed = FormatUntimed(table, flags.format);
  if (!untimed.ok()) return untimed.status();
  if (untimed->has_value()) return **untimed;
  if (flags.format == "html") return SchedulePage(table, flags, bound);
  const absl::StatusOr<ScheduleCosts> costs = ReadScheduleCosts(flags.costs, table.placement);
  if (!costs.ok()) return costs.status();
  absl::StatusOr<Simulation> run = Simulate(table, costs->stages);
  if (!run.ok()) return run.status();
  if (absl::Status fits = CheckMemoryLimit(table.name, *run, flags); !fits.ok()) return fits;
  UseBound(bound, *run);
  return FormatRun(*run, table, *costs, flags);
}

int List(const ScheduleFlags& flags) {
  const absl::Status written =
      WriteOutput("", flags.json ? CatalogueJson().dump(2) + "\n" : CatalogueText(OutputColumns()));
  return written.ok() ? kExitDone : Fail(written);
}

int Print(const Timetable& table, const ScheduleFlags& flags, double bound) {
  const absl::StatusOr<std::string> text = FormatTable(table, flags, bound);
  if (!text.ok()) return Fail(text.status());
  const absl::Status written = WriteOutput(flags.output, *text);
  return written.ok() ? kExitDone : Fail(written);
}

int ShowAuto(const ScheduleFlags& flags) {
  const absl::StatusOr<OptimisedTimetable> best = AutoTimetable(flags);
  if (!best.ok()) return Fail(best.status());
  return Print(best->table, FlagsOf(*best, flags), best->lower_bound);
}

int ShowDealt(const ScheduleFlags& flags) {
  const absl::StatusOr<DealtSchedule> dealt = DealSchedule(flags);
  if (!dealt.ok()) return Fail(dealt.status());
  const ShownSchedule& shown = dealt->shown;
  const std::string text = flags.format == "csv" ? FormatTimetableCsv(dealt->table)
                           : flags.format == "html"
                               ? PageOf({shown}, flags)
                               : FormatRun(shown.run, shown.table, shown.costs, flags);
  const absl::Status written = WriteOutput(flags.output, text);
  return written.ok() ? kExitDone : Fail(written);
}

int Show(const ScheduleFlags& flags) {
  if (!flags.stage_replicas.empty()) return ShowDealt(flags);
  if (flags.what == kAuto) return ShowAuto(flags);
  if (flags.choose_chunks) {
    return Fail(absl::InvalidArgumentError("-v auto is for schedule auto; give a number"));
  }
  const bool file = NamesFile(flags.what);
  const absl::StatusOr<Timetable> table =
      file ? ReadTable(flags)
           : GenerateTable(flags.what, flags.against.empty() ? flags : FlagsFor(flags.what, flags));
  if (!table.ok()) return Fail(table.status());
  if (file) {
    if (absl::Status sound = ValidateTimetable(*table); !sound.ok()) {
      PrintError(sound);
      return kExitInvalidTimetable;
    }
  }
  return Print(*table, flags, /*bound=*/0);
}

absl::StatusOr<Comparison> CompareOne(const std::string& name, ScheduleFlags flags) {
  if (name == kAuto) {
    absl::StatusOr<OptimisedTimetable> best = AutoTimetable(flags);
    if (!best.ok()) return best.status();
    return Comparison{std::move(best->table), std::move(best->run)};
  }
  const absl::StatusOr<const CatalogueEntry*> entry = FindSchedule(name);
  if (!entry.ok()) return entry.status();
  // What only schedules with chunks understand is meant for those.
  if ((*entry)->chunk_step == 0) flags.chunks.reset();
  if (!(*entry)->takes_group) flags.group.reset();
  absl::StatusOr<Timetable> table = GenerateTable(name, flags);
  if (!table.ok()) return table.status();
  const absl::StatusOr<ScheduleCosts> costs = ReadScheduleCosts(flags.costs, table->placement);
  if (!costs.ok()) return costs.status();
  absl::StatusOr<Simulation> run = Simulate(*table, costs->stages);
  if (!run.ok()) return run.status();
  if (absl::Status fits = CheckMemoryLimit(name, *run, flags); !fits.ok()) return fits;
  return Comparison{*std::move(table), *std::move(run)};
}

int Sweep(const ScheduleFlags& flags) {
  if (!flags.names.empty()) {
    return Fail(absl::InvalidArgumentError(
        "--memory-sweep compares the whole catalogue with auto; leave the names out"));
  }
  const absl::StatusOr<TradeOffCurve> curve = SweepTradeOff(flags);
  if (!curve.ok()) return Fail(curve.status());
  const std::string text = flags.format == "json"  ? TradeOffJson(*curve).dump() + "\n"
                           : flags.format == "svg" ? TradeOffSvg(*curve)
                                                   : TradeOffText(*curve, OutputColumns());
  const absl::Status written = WriteOutput(flags.output, text);
  return written.ok() ? kExitDone : Fail(written);
}

int Compare(const ScheduleFlags& flags) {
  if (flags.memory_sweep) return Sweep(flags);
  if (flags.format == "svg") {
    return Fail(absl::InvalidArgumentError(
        "compare draws only with --memory-sweep; 'sluice schedule show' draws one timetable"));
  }
  std::vector<std::string> names = flags.names;
  if (names.empty()) {
    for (const CatalogueEntry& entry : Catalogue()) names.emplace_back(entry.name);
    names.emplace_back(kAuto);
  }
  std::vector<Comparison> lines;
  absl::Status first_failure;
  for (const std::string& name : names) {
    absl::StatusOr<Comparison> line = CompareOne(name, flags);
    if (line.ok()) {
      lines.push_back(*std::move(line));
      continue;
    }
    // A schedule that was named must work; of the whole catalogue, those that fit the request are
    // shown.
    if (!flags.names.empty()) return Fail(line.status());
    first_failure.Update(line.status());
    if (!lines.empty()) PrintError(line.status());
  }
  if (lines.empty()) return Fail(first_failure);
  std::string text = ComparisonText(lines);
  if (flags.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& [table, run] : lines)
      list.push_back(SimulationJson(run, table, flags.actions));
    text = list.dump() + "\n";
  }
  const absl::Status written = WriteOutput(flags.output, text);
  return written.ok() ? kExitDone : Fail(written);
}

int Check(const ScheduleFlags& flags) {
  const absl::StatusOr<Timetable> table = ReadTable(flags);
  if (!table.ok()) return Fail(table.status());
  const std::vector<Defect> defects = FindDefects(*table, kMostDefects);
  std::string text;
  if (flags.json) {
    text = DefectsJson(flags.what, *table, defects).dump() + "\n";
  } else if (defects.empty()) {
    text = absl::StrCat(flags.what, ": sound (", table->placement.ranks(), " ranks, ",
                        table->placement.stages(), " stages, ", table->micro_batches,
                        " micro-batches, ", table->action_count(), " actions",
                        table->lowered() ? ", with sends and receives" : "", ")\n");
    if (const SumOrder order = SumOrder::Of(*table); !order.ascending()) {
      absl::StrAppend(&text, "Weight gradients are summed over the micro-batches in ",
                      order.ToString(), " order: training gives other bits than in ascending ",
                      "order, and the same ones for any partition.\n");
    }
  } else {
    for (const Defect& defect : defects)
      absl::StrAppend(&text, flags.what, ": ", ToString(defect), "\n");
  }
  const absl::Status written = WriteOutput("", text);
  if (!written.ok()) return Fail(written);
  if (defects.empty()) return kExitDone;
  PrintError(absl::InvalidArgumentError(
      absl::StrCat(flags.what, ": not a sound timetable: ", defects.size(),
                   static_cast<int>(defects.size()) == kMostDefects ? " or more" : "",
                   defects.size() == 1 ? " defect" : " defects")));
  return kExitInvalidTimetable;
}

void ReadChunks(const std::string& text, ScheduleFlags& flags) {
  int chunks = 0;
  flags.choose_chunks = text == "auto";
  if (flags.choose_chunks) return;
  if (!absl::SimpleAtoi(text, &chunks)) throw CLI::ConversionError(text, "--chunks");
  flags.chunks = chunks;
}

void AddSizeFlags(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("-p,--ranks", flags.ranks, "Ranks (devices) of the pipeline");
  app.add_option("-m,--micro-batches", flags.micro_batches, "Micro-batches in a step");
  app.add_option_function<std::string>(
      "-v,--chunks", [&flags](const std::string& text) { ReadChunks(text, flags); },
      "Stages per rank; for schedule auto also 'auto': stages cut as is best");
  app.add_option("--group", flags.group,
                 "Micro-batches that go through a chunk together (default: about ranks)");
  app.add_option("--update-every", flags.update_every,
                 "pipedream-2bw: micro-batches an update includes (default: ranks)");
  auto* uniform =
      app.add_option("--cost", flags.costs.uniform,
                     "Costs of every stage: F=1,I=1,W=1,B=2,RECOMPUTE=1,send=0,overlap=3");
  app.add_option("--costs", flags.costs.file, "Costs per stage, from a JSON file")
      ->excludes(uniform);
  app.add_flag("--recompute", flags.recompute,
               "Throw activations away after each forward, and rebuild them ahead of its backward");
  app.add_option("--memory-limit", flags.memory_limit,
                 "Most (stage, micro-batch) activations that a rank may hold");
  app.add_option("--time-limit", flags.time_limit,
                 "How long auto may search, as 1s or 200ms (default: a fixed amount of work)");
  app.add_option("-o,--output", flags.output, "Write to a file instead of stdout");
  app.add_flag("--actions", flags.actions, "With JSON: also when every action runs");
}

void AddPlacementFlag(CLI::App& app, ScheduleFlags& flags) {
  app.add_option("--placement", flags.placement,
                 "Where stages are: looped, v (chunks alternate direction) or bidirectional (two "
                 "copies of the model)")
      ->check(CLI::IsMember({"looped", "v", "bidirectional"}));
}

// Adds one subcommand; `setup` gets it and its flags, `run` is what it does.
void AddSubcommand(CLI::App& parent, int* exit_code, const char* name, const char* what,
                   const char* example, void (*setup)(CLI::App&, ScheduleFlags&),
                   int (*run)(const ScheduleFlags&)) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(absl::StrCat("Example: ", example));
  const auto flags = std::make_shared<ScheduleFlags>();
  setup(*app, *flags);
  app->add_flag("--json", flags->json, "Print one JSON document");
  app->callback([=] {
    if (flags->json) flags->format = "json";
    try {
      *exit_code = run(*flags);
    } catch (const std::bad_alloc&) {
      *exit_code = Fail(
          absl::ResourceExhaustedError("out of memory; ask for fewer micro-batches or stages"));
    }
  });
}

}  // namespace

void AddScheduleCommand(CLI::App& app, int* exit_code) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "Draw, compare and check pipeline timetables");
  schedule->require_subcommand(1);
  schedule->footer("Example: sluice schedule show 1f1b -p 4 -m 8");
  AddSubcommand(
      *schedule, exit_code, "list", "The schedules there are, with their formulas and papers",
      "sluice schedule list", [](CLI::App&, ScheduleFlags&) {}, List);
  AddSubcommand(
      *schedule, exit_code, "show", "One timetable, drawn or exported",
      "sluice schedule show interleaved -p 4 -m 8 -v 2 --cost F=1,B=2 --format svg -o out.svg",
      [](CLI::App& show, ScheduleFlags& flags) {
        show.add_option("schedule", flags.what, "NAME of a schedule, or FILE.csv")->required();
        AddSizeFlags(show, flags);
        AddPlacementFlag(show, flags);
        show.add_option("--stage-replicas", flags.stage_replicas,
                        "Ranks that share each stage, 3,1, instead of -p: they take turns at its "
                        "micro-batches, and a stage costs --cost times its ranks");
        show.add_option("--format", flags.format, "text, svg, html, csv, comms-csv, trace or json")
            ->check(CLI::IsMember({"text", "svg", "html", "csv", "comms-csv", "trace", "json"}));
        show.add_option("--width", flags.width,
                        "With text: columns of the picture (default: the terminal's)")
            ->check(CLI::Range(kLeastWidth, kMostWidth));
        show.add_option("--against", flags.against,
                        "With html: another schedule, NAME or FILE.csv, on the same time axis");
        show.add_option("--measured", flags.measured,
                        "With html: the trace of a run (train --trace) under the planned bars");
      },
      Show);
  AddSubcommand(
      *schedule, exit_code, "compare", "A table of several schedules",
      "sluice schedule compare 1f1b zb-h1 -p 4 -m 8",
      [](CLI::App& compare, ScheduleFlags& flags) {
        compare.add_option("schedules", flags.names, "NAMEs of schedules (default: all)");
        AddSizeFlags(compare, flags);
        AddPlacementFlag(compare, flags);
        compare.add_flag("--memory-sweep", flags.memory_sweep,
                         "The best makespan under each memory limit, as a table and a plot");
        compare.add_option("--format", flags.format, "text, json; with --memory-sweep also svg")
            ->check(CLI::IsMember({"text", "svg", "json"}));
      },
      Compare);
  AddSubcommand(
      *schedule, exit_code, "check", "Prove a timetable sound, or list its defects",
      "sluice schedule check table.csv",
      [](CLI::App& check, ScheduleFlags& flags) {
        check.add_option("file", flags.what, "FILE.csv")->required();
        AddPlacementFlag(check, flags);
      },
      Check);
}

}  // namespace sluice
