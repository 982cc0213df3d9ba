#include "tools/doctor/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "comm/mpi/process.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/portable_kernels.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";

// The first line that `command` prints.
std::string FirstLine(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  char line[256] = "";
  if (pipe == nullptr || std::fgets(line, sizeof(line), pipe.get()) == nullptr) return "";
  std::string text(line);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Findings Examine() {
  Findings found;
  const char* path = std::getenv("PATH");
  const std::string search_path = path == nullptr ? "" : path;
  found.processor = ReadProcessor("");
  found.usable_cores = CoresToUse();
  found.memory = ReadHostMemory();
  const dnnl_version_t* version = dnnl_version();
  found.onednn = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  found.onednn_isa = ProductInstructions();
  found.bf16 = CpuMultipliesBFloat16();
  found.accelerators = FindAccelerators();
  const absl::Status kernels = PrepareCudaKernels();
  found.cuda_build = !absl::IsFailedPrecondition(kernels);
  found.cublaslt = kernels.ok();
  found.mpirun = FindProgram("mpirun", search_path);
  found.mpi_library = MpiLibrary();
  found.ssh = FindProgram("ssh", search_path);
  if (!found.mpirun.empty()) found.mpi_version = FirstLine("mpirun --version 2>/dev/null");
  if (std::filesystem::exists(std::string(kFashionMnist) + "/train-images-idx3-ubyte.gz")) {
    found.fashion_mnist = kFashionMnist;
  }
  found.bible = FindProgram("bible", search_path);
  return found;
}

std::vector<Lack> FindLacks(const Findings& found) {
  std::vector<Lack> lacks;
  const auto lack_unless = [&](bool present, Lack lack) {
    if (!present) lacks.push_back(std::move(lack));
  };
  lack_unless(found.usable_cores >= 2,
              {"a second core",
               "stages take turns on one core: correct, but no faster than one stage", ""});
  lack_unless(found.processor.Has("avx2"), {"AVX2", "kernels run on slower instruction sets", ""});
  lack_unless(found.bf16,
              {"fast bf16",
               "--dtype bf16 computes its products in fp32: it works, and saves memory, "
               "but is no faster than --dtype fp32",
               ""});
  lack_unless(!found.mpirun.empty(),
              {"MPI", "ranks in several processes need torchrun, srun or --rank, and talk over TCP",
               "tools/setup"});
  lack_unless(found.mpirun.empty() || !found.mpi_library.empty(),
              {"MPI in this build", "--transport mpi is refused; ranks talk over TCP",
               "tools/setup, then build again"});
  lack_unless(found.mpirun.empty() || !found.ssh.empty(),
              {"ssh", "mpirun does not start, not even for ranks on one machine", "tools/setup"});
  lack_unless(!found.accelerators.gpus.empty(), {"a GPU", "training runs on the CPU", ""});
  lack_unless(found.accelerators.gpus.empty() || found.cuda_build,
              {"CUDA in this build", "the GPUs above stay idle: training runs on the CPU",
               "build where nvcc is, with -DSLUICE_CUDA=ON"});
  lack_unless(found.accelerators.gpus.empty() || !found.cuda_build || found.cublaslt,
              {"cuBLASLt", "the GPUs above stay idle: --device cuda is refused",
               "install CUDA's libraries, or name their folder in SLUICE_CUDA_LIBRARIES"});
  lack_unless(found.accelerators.gpus.empty() || !found.accelerators.nccl.empty(),
              {"NCCL", "GPUs cannot exchange tensors directly",
               "apt install libnccl2, or name its folder in SLUICE_CUDA_LIBRARIES"});
  lack_unless(!found.fashion_mnist.empty(),
              {"Fashion-MNIST", "tools/demo --mlp has no pictures to learn", "tools/setup"});
  lack_unless(!found.bible.empty(),
              {"the King James text", "tools/demo has no text to learn", "tools/setup"});
  return lacks;
}

Json ToJson(const Findings& found, const std::vector<Lack>& lacks) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json instruction_sets = Json::object();
  for (const InstructionSet& set : kInstructionSets) {
    instruction_sets[set.name] = found.processor.Has(set.flag);
  }
  Json caches = Json::array();
  for (const Cache& cache : found.processor.caches) {
    caches.push_back({{"level", cache.level},
                      {"type", cache.type},
                      {"bytes", cache.bytes},
                      {"shared_by", cache.shared_by}});
  }
  Json gpus = Json::array();
  for (const Gpu& gpu : found.accelerators.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"memory_bytes", gpu.memory_bytes},
                    {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)}});
  }
  Json missing = Json::array();
  for (const Lack& lack : lacks) {
    missing.push_back(
        {{"what", lack.what}, {"meaning", lack.meaning}, {"remedy", or_null(lack.remedy)}});
  }
  return {
      {"processor", found.processor.model},
      {"cores", found.usable_cores},
      {"logical_cores", found.processor.logical_cores},
      {"physical_cores", found.processor.physical_cores},
      {"instruction_sets", instruction_sets},
      {"caches", caches},
      {"memory_bytes", found.memory.total_bytes},
      {"available_memory_bytes", std::max<int64_t>(0, found.memory.available_bytes)},
      {"onednn", {{"version", found.onednn}, {"isa", found.onednn_isa}}},
      {"native_bf16", found.bf16},
      {"cuda_driver", or_null(found.accelerators.cuda_driver)},
      {"cuda_build", found.cuda_build},
      {"cublaslt", found.cublaslt},
      {"gpus", gpus},
      {"nccl", or_null(found.accelerators.nccl)},
      {"cudnn", or_null(found.accelerators.cudnn)},
      {"mpi",
       {{"mpirun", or_null(found.mpirun)},
        {"version", or_null(found.mpi_version)},
        {"library", or_null(found.mpi_library)}}},
      {"data", {{"fashion_mnist", or_null(found.fashion_mnist)}, {"bible", or_null(found.bible)}}},
      {"missing", missing}};
}

}  // namespace sluice
