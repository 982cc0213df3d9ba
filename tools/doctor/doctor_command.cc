#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "models/spec/json_text.h"
#include "tools/command.h"
#include "tools/doctor/findings.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kStep && unit + 1 < std::size(kUnits)) {
    value /= kStep;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 && unit > 2 ? 1 : 0, kUnits[unit]);
}

std::string FormatCaches(const Processor& processor) {
  std::vector<std::string> parts;
  for (const Cache& cache : processor.caches) {
    if (cache.type == "Instruction") continue;
    parts.push_back(fmt::format(
        "L{} {} {}", cache.level, FormatBytes(cache.bytes),
        cache.shared_by == 1 ? "per core" : fmt::format("for {} cores", cache.shared_by)));
  }
  return parts.empty() ? "unknown" : absl::StrJoin(parts, " · ");
}

std::string FormatInstructionSets(const Processor& processor) {
  std::vector<std::string> here, absent;
  for (const InstructionSet& set : kInstructionSets) {
    (processor.Has(set.flag) ? here : absent).emplace_back(set.name);
  }
  std::string text = here.empty() ? "none of those below" : absl::StrJoin(here, " ");
  if (!absent.empty()) text += "   (not: " + absl::StrJoin(absent, " ") + ")";
  return text;
}

std::string FormatCores(const Findings& found) {
  std::string text = fmt::format("{} to use", found.usable_cores);
  if (found.usable_cores != found.processor.logical_cores) {
    text += fmt::format(" of {}", found.processor.logical_cores);
  }
  return text + fmt::format("   ({} physical)", found.processor.physical_cores);
}

std::string FormatMemory(const HostMemory& memory) {
  if (memory.available_bytes < 0) return "unknown";
  return fmt::format("{}, {} available{}", FormatBytes(memory.total_bytes),
                     FormatBytes(memory.available_bytes),
                     memory.in_group ? "   (the limit of a container or a job)" : "");
}

std::string FormatGpus(const Accelerators& accelerators) {
  if (accelerators.gpus.empty()) {
    return accelerators.cuda_driver.empty() ? "none" : "none, though there is a driver";
  }
  std::vector<std::string> lines;
  for (const Gpu& gpu : accelerators.gpus) {
    lines.push_back(fmt::format("{}, {}, compute capability {}.{}", gpu.name,
                                FormatBytes(gpu.memory_bytes), gpu.major, gpu.minor));
  }
  return absl::StrJoin(lines, "\n") + fmt::format("   (CUDA {})", accelerators.cuda_driver);
}

std::string FormatMpi(const Findings& found) {
  if (found.mpirun.empty()) return "";
  return fmt::format(
      "{}   ({}; {})", found.mpi_version, found.mpirun,
      found.mpi_library.empty() ? "not in this build" : "in this build " + found.mpi_library);
}

void Print(const Findings& found, const std::vector<Lack>& lacks) {
  const bool colour = WantsColour();
  const auto paint = [colour](const char* code, const std::string& text) {
    return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  // `text` behind a name that is `columns` wide, in as many lines as it needs.
  const auto show = [&](const std::string& name, size_t columns, const char* code,
                        const std::string& text) {
    std::string head = fmt::format("  {:<{}}", name, columns);
    const size_t width = head.size();
    for (const absl::string_view part : absl::StrSplit(text, '\n')) {
      std::string lines =
          WrappedBehind(std::string(width, ' '), std::string(part), OutputColumns());
      if (!head.empty()) lines.replace(0, width, paint(code, head));
      head.clear();
      fmt::print("{}", InLocale(std::move(lines)));
    }
  };
  const auto line = [&](const char* name, const std::string& text) {
    show(name, 17, "1", text.empty() ? "none" : text);
  };
  line("processor", found.processor.model.empty() ? "unknown" : found.processor.model);
  line("cores", FormatCores(found));
  line("instructions", FormatInstructionSets(found.processor));
  line("caches", FormatCaches(found.processor));
  line("memory", FormatMemory(found.memory));
  line("oneDNN", fmt::format("{}, on {}", found.onednn, found.onednn_isa));
  line("bf16", found.bf16 ? "native" : "not native: --dtype bf16 computes its products in fp32");
  line("GPU", FormatGpus(found.accelerators));
  line("NCCL", found.accelerators.nccl);
  line("cuDNN", found.accelerators.cudnn);
  line("MPI", FormatMpi(found));
  line("Fashion-MNIST", found.fashion_mnist);
  line("King James text", found.bible.empty() ? "" : found.bible + " -f");
  if (lacks.empty()) {
    fmt::print("\n{}\n", paint("32", "Nothing is missing."));
    return;
  }
  fmt::print("\nMissing, and what that means\n");
  for (const Lack& lack : lacks) {
    show(lack.what, 21, "33",
         lack.meaning + (lack.remedy.empty() ? "" : "; to get it: " + lack.remedy));
  }
}

void RunDoctor(bool json) {
  const Findings found = Examine();
  const std::vector<Lack> lacks = FindLacks(found);
  if (json) {
    fmt::print("{}\n", JsonText(ToJson(found, lacks), 2));
  } else {
    Print(found, lacks);
  }
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say what this machine has, and what is missing");
  command->footer("Example:\n  sluice doctor --json");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON document, with sizes in bytes");
  command->callback([json, exit_code] {
    RunDoctor(*json);
    *exit_code = kExitDone;
  });
}

}  // namespace sluice
