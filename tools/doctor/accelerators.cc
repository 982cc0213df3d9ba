#include "tools/doctor/accelerators.h"

#include <dlfcn.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "models/device/cuda_libraries.h"

namespace sluice {
namespace {

// CUdevice_attribute, from the driver's documented interface (cuda.h).
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

// A shared library that stays loaded, since drivers may fail when they are unloaded.
class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}

  // Calls the C function `name`, which returns 0 on success. False where it is missing or fails.
  template <typename... Args>
  bool Call(const char* name, Args... args) const {
    if (handle_ == nullptr) return false;
    auto* function = reinterpret_cast<int (*)(Args...)>(dlsym(handle_, name));
    return function != nullptr && function(args...) == 0;
  }

 private:
  void* handle_;
};

Gpu DescribeGpu(const Library& driver, int device) {
  Gpu gpu;
  std::array<char, 128> name{};
  size_t bytes = 0;
  driver.Call("cuDeviceGetName", name.data(), static_cast<int>(name.size() - 1), device);
  driver.Call("cuDeviceTotalMem_v2", &bytes, device);
  driver.Call("cuDeviceGetAttribute", &gpu.major, kComputeCapabilityMajor, device);
  driver.Call("cuDeviceGetAttribute", &gpu.minor, kComputeCapabilityMinor, device);
  gpu.name = name.data();
  gpu.memory_bytes = static_cast<int64_t>(bytes);
  return gpu;
}

}  // namespace

std::string CudaDriverVersion() {
  int version = 0;  // 1000 * major + 10 * minor
  if (!Library("libcuda.so.1").Call("cuDriverGetVersion", &version)) return "";
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// The version of the library that --transport nccl would use; empty where there is none.
std::string NcclVersion() {
  const absl::StatusOr<CudaLibrary> library = CudaLibrary::Open("NCCL", {"libnccl.so.2"});
  int (*get_version)(int*) = nullptr;  // returns 0 on success
  int version = 0;
  if (!library.ok() || !library->Find("ncclGetVersion", &get_version).ok()) return "";
  if (get_version(&version) != 0) return "";
  return LibraryVersionName(version);
}

// The version of the library that --attention cudnn would use; empty where there is none.
std::string CudnnVersion() {
  const absl::StatusOr<CudaLibrary> library = CudaLibrary::Open("cuDNN", {"libcudnn.so.9"});
  size_t (*get_version)() = nullptr;
  if (!library.ok() || !library->Find("cudnnGetVersion", &get_version).ok()) return "";
  return LibraryVersionName(static_cast<int64_t>(get_version()));
}

Accelerators FindAccelerators() {
  Accelerators found;
  const Library driver("libcuda.so.1");
  int count = 0;
  if (driver.Call("cuInit", 0U) && driver.Call("cuDeviceGetCount", &count)) {
    for (int device = 0; device < count; ++device) {
      found.gpus.push_back(DescribeGpu(driver, device));
    }
  }
  found.cuda_driver = CudaDriverVersion();
  found.nccl = NcclVersion();
  found.cudnn = CudnnVersion();
  return found;
}

}  // namespace sluice
