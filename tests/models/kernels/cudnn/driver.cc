// Stands in for CUDA's driver where there is no GPU, so that cuDNN can compile kernels for a GPU
// that is described to it. Loading an image always works; the names of the kernels that are looked
// for in it are kept for the test, and the images are written to the folder that STAND_IN_IMAGES
// names, for cuobjdump.
#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// An image is an ELF file, which ends with its headers of sections or of segments.
static void Keep(const void* image) {
  const char* const folder = std::getenv("STAND_IN_IMAGES");
  if (folder == nullptr) return;
  static int count = 0;
  char path[4096];
  std::snprintf(path, sizeof(path), "%s/%d.cubin", folder, count++);
  const auto* const header = static_cast<const Elf64_Ehdr*>(image);
  FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return;
  const size_t sections = header->e_shoff + size_t{header->e_shnum} * header->e_shentsize;
  const size_t segments = header->e_phoff + size_t{header->e_phnum} * header->e_phentsize;
  std::fwrite(image, 1, std::max(sections, segments), file);
  std::fclose(file);
}

extern "C" {

static char names[1 << 16];

// Every kernel's name since the last call, one per line.
const char* StandInKernelNames() {
  static char taken[sizeof(names)];
  std::memcpy(taken, names, sizeof(names));
  names[0] = '\0';
  return taken;
}

int cuLibraryLoadData(void** library, const void* image) {
  static char handle;
  *library = &handle;
  Keep(image);
  return image == nullptr ? 1 : 0;
}

int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  *kernel = library;
  const size_t used = std::strlen(names);
  std::snprintf(names + used, sizeof(names) - used, "%s\n", name);
  return 0;
}

int cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return 0;
}

int cuInit(unsigned) { return 100; }  // CUDA_ERROR_NO_DEVICE

int cuGetErrorString(int error, const char** text) {
  *text = error == 0 ? "no error" : "there is no GPU here";
  return 0;
}

int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }

// What cuDNN looks up and has no use for before a kernel runs.
#define UNUSED(name) \
  int name() { return 0; }
UNUSED(cuCtxGetCurrent)
UNUSED(cuCtxGetDevice)
UNUSED(cuCtxGetLimit)
UNUSED(cuCtxPopCurrent)
UNUSED(cuCtxPushCurrent)
UNUSED(cuDeviceGet)
UNUSED(cuDeviceGetAttribute)
UNUSED(cuDeviceGetCount)
UNUSED(cuDevicePrimaryCtxRelease)
UNUSED(cuDevicePrimaryCtxReset)
UNUSED(cuDevicePrimaryCtxRetain)
UNUSED(cuDriverGetVersion)
UNUSED(cuFuncGetAttribute)
UNUSED(cuFuncSetAttribute)
UNUSED(cuKernelGetAttribute)
UNUSED(cuKernelSetAttribute)
UNUSED(cuLaunchCooperativeKernel)
UNUSED(cuLaunchKernel)
UNUSED(cuLaunchKernelEx)
UNUSED(cuLibraryLoadFromFile)
UNUSED(cuLibraryUnload)
UNUSED(cuLinkAddData)
UNUSED(cuLinkAddData_v2)
UNUSED(cuLinkAddFile_v2)
UNUSED(cuLinkComplete)
UNUSED(cuLinkCreate)
UNUSED(cuLinkCreate_v2)
UNUSED(cuLinkDestroy)
UNUSED(cuMemcpyDtoH_v2)
UNUSED(cuModuleGetFunction)
UNUSED(cuModuleGetGlobal_v2)
UNUSED(cuModuleLoadData)
UNUSED(cuModuleLoadDataEx)
UNUSED(cuModuleLoadFatBinary)
UNUSED(cuModuleUnload)
UNUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
UNUSED(cuOccupancyMaxPotentialClusterSize)
UNUSED(cuStreamGetCtx)
UNUSED(cuStreamSynchronize)
UNUSED(cuTensorMapEncodeTiled)

}  // extern "C"
